"""The state of a process that jobs must find as it is at its start, whatever the job before has done."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch


def remembered() -> Callable[[], None]:
    """Return a function that brings back the settings of this process as they are now, with one thread for torch."""
    torch.set_num_threads(1)
    folder, limit, filters = Path.cwd(), sys.getrecursionlimit(), warnings.filters[:]
    variables, path = dict(os.environ), sys.path[:]
    dtype = torch.get_default_dtype()
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()

    def bring_back() -> None:
        torch.set_num_threads(1)
        torch.set_default_dtype(dtype)
        if torch.get_default_device().type != "cpu":
            torch.set_default_device(None)
        torch.set_grad_enabled(True)
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision("highest")
        if torch.are_deterministic_algorithms_enabled():  # without a question, torch would import its compiler
            torch.use_deterministic_algorithms(False)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])
        os.chdir(folder)
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)
        sys.setrecursionlimit(limit)
        sys.path[:] = path
        warnings.filters[:] = filters  # type: ignore[index]

    return bring_back
