"""Progress on standard error: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text


class Progress:
    """A count that is shown on standard error.

    Args:
        title: What is counted.
        total: The count at the end; 0 if nobody knows it yet, and then no count is shown until `extend` raises it.
        every_s: Seconds between two lines if standard error is no terminal.
        shown: Whether to show anything.
        costs: What each thing costs in comparison with the others, in the order in which they are done. The time left
            follows from it; without it, all cost the same.
    """

    def __init__(
        self, title: str, total: int, every_s: float = 20.0, *, shown: bool = True, costs: Sequence[float] = ()
    ) -> None:
        self.title = title
        self.total = total
        self.every_s = every_s if shown else math.inf
        self.done = 0
        self.spent = [0.0, *accumulate(costs)]
        self.started = self.last = time.monotonic()
        self.ends = math.nan  # nobody knows yet
        self.bar: Bar | None = None
        if not shown:
            return
        console = Console(stderr=True)
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self.bar = Bar(*columns, TextColumn("left"), _Left(self), console=console)
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
        if share := self._share():
            now = time.monotonic()
            self.ends = now + (now - self.started) * max(0.0, 1 / share - 1)
        if self.bar:
            self.bar.update(self.task, completed=done)
        elif time.monotonic() - self.last >= self.every_s:
            self._say(done)

    def close(self) -> None:
        """Stop the bar; the last count stays on the screen."""
        if self.bar:
            self.bar.stop()
            self.bar = None

    def left_s(self) -> float:
        """Return the seconds that are left, NaN while nobody knows."""
        return math.nan if math.isnan(self.ends) else max(0.0, self.ends - time.monotonic())

    def _share(self) -> float:
        """Return the share of all costs that is done."""
        if self.done < len(self.spent) and self.spent[-1] > 0:
            return self.spent[self.done] / self.spent[-1]
        return self.done / self.total if self.total else 0.0

    def _say(self, done: int) -> None:
        self.last = time.monotonic()
        if not self.total:
            sys.stderr.write(f"{self.title}\n")
            sys.stderr.flush()
            return
        elapsed = self.last - self.started
        left = "" if math.isnan(self.ends) else f", about {self.left_s():.0f} s left"
        sys.stderr.write(f"{self.title}: {done}/{self.total} after {elapsed:.0f} s{left}\n")
        sys.stderr.flush()


class _Left(ProgressColumn):
    """The time that is left, by the costs of what is counted."""

    def __init__(self, of: Progress) -> None:
        super().__init__()
        self.of = of

    def render(self, task: Task) -> Text:
        """Return hours, minutes and seconds."""
        left = self.of.left_s()
        return Text("-:--:--" if math.isnan(left) else str(timedelta(seconds=round(left))), style="progress.remaining")
