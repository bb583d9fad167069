"""What changed between two versions of a leaderboard, row by row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ....errors import ResultsError, in_words
from ....progress import Progress
from ..standing import Standing, ranked
from .sources import BOARDS, read_leaderboard

N = TypeVar("N", str, tuple[str, int])

#: The table of a leaderboard that has its coefficients.
TABLE = "leaderboard.csv"


@dataclass(frozen=True)
class Row:
    """One proxy on one board, as one version of a leaderboard has it.

    Attributes:
        id: Id of the board.
        title: Title of the board.
        ground: Space, data set and accuracy of the board, in one text.
        networks: Number of networks that are ranked.
        tau: Kendall's tau-b, positive where the proxy ranks as it claims; with its interval over networks.
    """

    id: str
    title: str
    ground: str
    proxy: str
    batch_size: int
    version: int
    networks: int
    tau: float
    tau_low: float
    tau_high: float


@dataclass(frozen=True)
class Change:
    """A row that is not what it was.

    Attributes:
        what: `new`, `gone`, or what is another: `version`, `batch`, `networks`; `scores` if it is none of these.
        before: The row of the former version, None for a new one.
        now: The row of this version, None for one that is gone.
    """

    what: str
    before: Row | None
    now: Row | None

    @property
    def row(self) -> Row:
        """The row of this version, or of the former one where this one has none."""
        known = self.now or self.before
        assert known is not None
        return known

    @property
    def size(self) -> float:
        """Kendall's tau-b now less that before; NaN if one of them is missing."""
        return self.now.tau - self.before.tau if self.now and self.before else math.nan

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        record: dict[str, Any] = {
            "id": self.row.id, "title": self.row.title, "proxy": self.row.proxy, "what": self.what, "change": self.size,
        }  # fmt: skip
        for name in ("tau", "tau_low", "tau_high", "networks", "version", "batch_size"):
            for when, row in (("before", self.before), ("now", self.now)):
                record[f"{name}_{when}"] = "" if row is None else getattr(row, name)
        return record


def of_standings(standings: Iterable[Standing]) -> list[Row]:
    """Return the rows of boards that were just computed."""
    return [_row(r.flat() | s.board.identity()) for s in standings for r in s.rankings]


def former(folder: Path) -> list[Row]:
    """Return the rows of a former version of a leaderboard, from its table, or from its scores if it has no table.

    What the table says has to follow from the scores beside it, but for the intervals, which take minutes and are
    believed. A table without scores is believed.

    Raises:
        ResultsError: The folder is no leaderboard, one of an older zcbench, a file of it is torn, or its table does
            not follow from its scores.
    """
    path = folder / TABLE
    if not path.exists() and has_scores(folder):
        sources = read_leaderboard(folder)
        return [_row(r.flat() | board.identity()) for board, rows in sources for r in ranked(board, rows)[1]]
    if not path.is_file():
        raise ResultsError(f"since: expected a folder that zcbench leaderboard wrote, got {folder}, without {TABLE}")
    try:
        reader = csv.DictReader(io.StringIO(path.read_text("utf-8")), strict=True)
        records = list(reader)
        if missing := {"id", "title", "tau", "tau_low", "higher_is_better"} - set(reader.fieldnames or ()):
            raise ResultsError(
                f"since: {path} has no column {min(missing)}, so an older zcbench wrote it: make that leaderboard "
                "again from its scores"
            )
        if not records:
            raise ValueError("no rows")
        rows = [_row(record) for record in records]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, csv.Error) as error:
        raise ResultsError(
            f"since: {path} is torn or was changed ({in_words(error)}): make that leaderboard again from its scores"
        ) from None
    if has_scores(folder):
        _follows(rows, folder)
    return rows


def has_scores(folder: Path) -> bool:
    """Return whether a leaderboard has the scores that its table is made from."""
    return (folder / BOARDS).exists()


def _follows(rows: Sequence[Row], folder: Path) -> None:
    """Require that every row but its interval follows from the scores of a leaderboard.

    Raises:
        ResultsError: A row differs, is missing, or is one too many; or a file is torn.
    """
    computed: list[Row] = []
    sources = read_leaderboard(folder)
    with Progress("boards of the former version compared", len(sources)) as progress:
        for board, scores in sources:
            plain = replace(board, recipe=replace(board.recipe, resamples=0))
            computed += [_row(r.flat() | board.identity()) for r in ranked(plain, scores)[1]]
            progress.advance(1)
    given, found = ({(row.id, row.proxy, row.batch_size): row for row in of} for of in (rows, computed))
    for key in [*found, *(key for key in given if key not in found)]:
        said, is_so = given.get(key), found.get(key)
        if said is None or is_so is None or _change(is_so, said):
            row = said or is_so
            assert row is not None
            gives, says = (_short(of) for of in (is_so, said))
            raise ResultsError(
                f"since: {folder / TABLE} does not follow from its scores, which give {gives} for {row.proxy} on "
                f"{row.title}; it says {says}: zcbench leaderboard --results {folder} --out {folder} makes it again"
            )


def _short(row: Row | None) -> str:
    return f"tau {row.tau:.3f} of {row.networks} networks, version {row.version}" if row else "no row"


def changes(before: Sequence[Row], now: Sequence[Row]) -> list[Change]:
    """Compare two versions; what moved most comes first, then new rows, then those that are gone.

    A board is the same as one of the same id. Of the others, a board is the same as the only one of the same space,
    data set and accuracy, which is then on other networks, images or seeds. A row is the same as one of the same proxy
    and batch size, or else as the only one of the proxy. Values that differ by rounding alone are equal.
    """
    found: list[Change] = []
    for old, new in _pairs({row.id: row.ground for row in before}, {row.id: row.ground for row in now}):
        older = {(row.proxy, row.batch_size): row for row in before if row.id == old}
        newer = {(row.proxy, row.batch_size): row for row in now if row.id == new}
        for a, b in _pairs({key: key[0] for key in older}, {key: key[0] for key in newer}):
            found += _change(older[a] if a else None, newer[b] if b else None)
    order = {"gone": 2, "new": 1}
    return sorted(found, key=lambda c: (order.get(c.what, 0), -_size(c), c.row.title, c.row.proxy, c.row.batch_size))


def _pairs(old: Mapping[N, str], new: Mapping[N, str]) -> list[tuple[N | None, N | None]]:
    """Pair names that are equal, then names that alone have a text on both sides; what is left has no other."""
    pairs: list[tuple[N | None, N | None]] = [(name, name) for name in new if name in old]
    loose_old, loose_new = (
        {name: of[name] for name in of if name not in other} for of, other in ((old, new), (new, old))
    )
    for name, text in loose_new.items():
        others = [other for other, own in loose_old.items() if own == text]
        alone = len(others) == 1 and list(loose_new.values()).count(text) == 1
        pairs.append((others[0] if alone else None, name))
    paired = {first for first, _ in pairs}
    return pairs + [(name, None) for name in loose_old if name not in paired]


def _change(before: Row | None, now: Row | None) -> list[Change]:
    if before is None or now is None:
        return [Change("new" if before is None else "gone", before, now)]
    names = {"version": "version", "batch_size": "batch", "networks": "networks"}
    what = [word for name, word in names.items() if getattr(before, name) != getattr(now, name)]
    if before.id != now.id and "networks" not in what:
        what.append("networks")
    if not what and math.isclose(before.tau, now.tau, rel_tol=0, abs_tol=1e-9):
        return []
    if not what and math.isnan(before.tau) and math.isnan(now.tau):
        return []
    return [Change(", ".join(what) or "scores", before, now)]


def _size(change: Change) -> float:
    """Return what changes are sorted by: their size, and less than nothing where it is not known."""
    return -1.0 if math.isnan(change.size) else abs(change.size)


def _row(record: Mapping[str, Any]) -> Row:
    up = record["higher_is_better"] in (True, "True")
    if not up and record["higher_is_better"] not in (False, "False"):
        raise ValueError(f"higher_is_better: expected True or False, got {record['higher_is_better']}")
    tau, low, high = (float(record[name]) for name in ("tau", "tau_low", "tau_high"))
    if any(abs(value) > 1 + 1e-9 for value in (tau, low, high)):
        raise ValueError(f"tau: expected -1 to 1, got {tau} [{low} {high}]")
    return Row(
        str(record["id"]),
        _text(record["title"]),
        " ".join(_text(record[name]) for name in ("space", "dataset", "accuracy")),
        _text(record["proxy"]),
        int(record["batch_size"]),
        int(record["version"]),
        int(record["n"]),
        *((tau, low, high) if up else (-tau, -high, -low)),
    )


def _text(cell: Any) -> str:
    """Return a text without the apostrophe that tells spreadsheets that it is no formula."""
    return str(cell).removeprefix("'")
