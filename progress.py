"""Progress on standard error: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import math
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    """A count that is shown on standard error.

    Args:
        title: What is counted.
        total: The count at the end; 0 if nobody knows it yet, and then no count is shown until `extend` raises it.
        every_s: Seconds between two lines if standard error is no terminal.
        shown: Whether to show anything.
    """

    def __init__(self, title: str, total: int, every_s: float = 20.0, *, shown: bool = True) -> None:
        self.title = title
        self.total = total
        self.every_s = every_s if shown else math.inf
        self.done = 0
        self.started = self.last = time.monotonic()
        self.bar: Bar | None = None
        if not shown:
            return
        console = Console(stderr=True)
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self.bar = Bar(*columns, TextColumn("left"), TimeRemainingColumn(), console=console)
            self.task = self.bar.add_task(title, total=total or None)
            self.bar.start()
        else:
            self._say(0)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, more: int) -> None:
        """Add `more` to the count and show it."""
        self.update(self.done + more)

    def extend(self, more: int) -> None:
        """Raise the count at the end by `more`."""
        self.total += more
        if self.bar:
            self.bar.update(self.task, total=self.total)

    def update(self, done: int) -> None:
        """Show a new count."""
        self.done = done
        if self.bar:
            self.bar.update(self.task, completed=done)
        elif time.monotonic() - self.last >= self.every_s:
            self._say(done)

    def close(self) -> None:
        """Stop the bar; the last count stays on the screen."""
        if self.bar:
            self.bar.stop()
            self.bar = None

    def _say(self, done: int) -> None:
        self.last = time.monotonic()
        if not self.total:
            sys.stderr.write(f"{self.title}\n")
            sys.stderr.flush()
            return
        elapsed = self.last - self.started
        left = f", about {elapsed / done * (self.total - done):.0f} s left" if done else ""
        sys.stderr.write(f"{self.title}: {done}/{self.total} after {elapsed:.0f} s{left}\n")
        sys.stderr.flush()
