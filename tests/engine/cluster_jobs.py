"""Jobs of `test_cluster`, in a file that processes of Ray can import."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch

DOES = {
    1: lambda: os.kill(os.getpid(), signal.SIGSEGV),
    2: lambda: time.sleep(60),
    3: lambda: sys.exit(2),
    4: lambda: (torch.set_num_threads(2), torch.set_default_dtype(torch.float64), os.chdir("/")),
}


def nothing() -> None:
    """Prepare nothing."""


def job(number: int) -> tuple[str, int, float]:
    """Return what the job finds of its process, and a value that depends on the order of sums."""
    DOES.get(number, lambda: None)()
    found = str(Path.cwd()), torch.get_num_threads()
    x = torch.randn(200, 200, generator=torch.Generator().manual_seed(number))
    return *found, float((x @ x.t()).logdet().nan_to_num() + x.sum())


def parent(milliseconds: int) -> int:
    """Return the process of Ray that holds this worker."""
    time.sleep(milliseconds / 1000)
    return os.getppid()


def noted(folder: Path) -> None:
    """Leave the number of this process in a folder, and go on for a minute."""
    (folder / str(os.getpid())).touch()
    time.sleep(60)
