"""What the seconds of a probe were spent on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any


class Seconds:
    """Seconds by what they were spent on; those of a part inside of a part count once, for the inner one.

    Attributes:
        of: Seconds by key.
        inside: Keys that were spent on inside of another key.
    """

    def __init__(self) -> None:
        self.of: dict[object, float] = {}
        self.inside: dict[object, set[object]] = {}
        self.total = 0.0
        self._running: list[list[Any]] = []

    @contextlib.contextmanager
    def spent_on(self, key: object) -> Iterator[None]:
        """Charge the seconds that pass inside."""
        start = time.perf_counter()
        if self._running:
            self.inside.setdefault(self._running[-1][0], set()).add(key)
        self._running.append([key, 0.0])
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            _, inner = self._running.pop()
            self.of[key] = self.of.get(key, 0.0) + spent - inner
            self.total += spent - inner
            if self._running:
                self._running[-1][1] += spent
