"""Worker processes that use one thread each; the results do not depend on their number."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import TypeVar

import torch

from ...errors import ConfigError, ResultsError

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """A set of worker processes, or only this process.

    Args:
        devices: Number of processes; with 1, this process does the work.
        prepare: Function that every process calls first.
        args: Arguments of `prepare`.

    Raises:
        ConfigError: `devices` is less than 1.
    """

    def __init__(self, devices: int, prepare: Callable[..., None] | None = None, *args: object) -> None:
        if devices < 1:
            raise ConfigError(f"devices: expected 1 or more, got {devices}")
        self.devices = devices
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.pool: ProcessPoolExecutor | None = None
        if devices > 1:
            self.pool = ProcessPoolExecutor(devices, _context(), _start, (prepare, args))
        elif prepare:
            prepare(*args)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of the function for every item, in the order of the items.

        Raises:
            ResultsError: A worker dies.
        """
        if self.pool is None:
            yield from map(function, items)
            return
        try:
            yield from self.pool.map(function, items)
        except BrokenProcessPool:
            raise ResultsError(
                "devices: a worker died, perhaps because memory ran out; finished networks and generations are kept: "
                "try fewer devices"
            ) from None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
        torch.set_num_threads(self.threads)


def _context() -> BaseContext:
    """Return the start method: forked processes share mapped memory, but are not safe beside CUDA's threads."""
    fork = sys.platform == "linux" and not torch.cuda.is_available()
    return multiprocessing.get_context("fork" if fork else "spawn")


def _start(prepare: Callable[..., None] | None, args: Sequence[object]) -> None:
    """Prepare a worker process: it uses one thread, ignores interrupts, and ends with the process that started it."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent is interrupted too, and ends this worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare:
        prepare(*args)


def _end_with_parent() -> None:
    """End this process when its parent is gone; no other signal says that the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
