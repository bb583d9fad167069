"""Processes that evaluate programs, one thread each; what they return does not depend on how many there are."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from types import TracebackType
from typing import TypeVar

import torch

from ..errors import ConfigError, ResultsError

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """A pool of processes, or this process alone.

    Args:
        devices: How many.

    Raises:
        ConfigError: Less than one.
    """

    def __init__(self, devices: int) -> None:
        if devices < 1:
            raise ConfigError(f"devices: expected 1 or more, got {devices}")
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.pool: ProcessPoolExecutor | None = None
        if devices > 1:
            # Forks share what is mapped into memory, and start at once.
            context = multiprocessing.get_context("spawn" if torch.cuda.is_available() else "fork")
            self.pool = ProcessPoolExecutor(devices, context, _start)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of every item, in their order.

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
                "evolution: a worker died, perhaps for want of memory; generations that are finished are kept: try "
                "fewer devices"
            ) from None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
        torch.set_num_threads(self.threads)


def _start() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this worker is interrupted too, and ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End when the process that started this one is gone, killed or not: nobody else would tell."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
