"""Tables on a terminal. Rich is imported where a table is made, so that `--help` is quick."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

#: The width of tables where there is no terminal and COLUMNS is not set.
WIDTH = 100
#: Characters between two columns of a table of lines.
GAP = 2


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on a terminal what takes seconds, until it is done; nothing of it stays there."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def table(*columns: str, title: str | None = None, dense: bool = False) -> Table:
    """Return an empty table whose first column is never broken.

    Args:
        columns: Headings.
        title: What stands above.
        dense: Whether columns stand close together and all but the first are numbers.
    """
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    if dense:
        made.box, made.padding = None, (0, 1, 0, 0)
    for column in columns:
        first = column == columns[0]
        made.add_column(column, overflow="fold", no_wrap=first, justify="right" if dense and not first else "left")
    return made


def records(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, lines: bool = False) -> Table:
    """Return a table of records.

    Args:
        rows: The records.
        columns: The fields that are shown.
        lines: Whether every record is one line: the last column is cut where the terminal ends.
    """
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    if lines and _known_width():
        *others, _ = zip(columns, *cells, strict=True)
        room = width() - sum(max(map(len, column)) + GAP for column in others)
        cells = [[*row[:-1], row[-1] if len(row[-1]) <= room else f"{row[-1][: room - 1]}…"] for row in cells]
    made = table(*columns)
    if lines:
        made.box, made.padding = None, (0, GAP, 0, 0)
    for row in cells:
        made.add_row(*row)
    return made


def show(made: Table) -> None:
    """Print a table."""
    from rich.console import Console

    Console(width=width(), highlight=False, markup=False).print(made)


def show_lines(made: Table) -> None:
    """Print a table of records that are one line each, whole where no width is known."""
    from rich.console import Console

    whole = Console(width=10_000, markup=False).measure(made).maximum
    Console(width=width() if _known_width() else max(WIDTH, whole), highlight=False, markup=False).print(made)


def _known_width() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def width() -> int:
    """Return the number of characters of a line."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
