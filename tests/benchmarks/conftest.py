"""How benchmarks measure."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


@pytest.fixture
def seconds() -> Callable[..., float]:
    """Return what measures processor time, which other processes do not lengthen: the least of some rounds."""

    def measure(run: Callable[[], object], rounds: int = 3) -> float:
        times = []
        for _ in range(rounds):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
        return min(times)

    return measure
