"""The writer of a run: a call writes a part at once, so no finished score is lost, and parts are joined by tiers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from .parts import JOINED_ROWS, SCHEMA, Row, joined, read, write

#: Number of parts of one tier that become one part of the next, so a row is written once per tier.
FAN_OUT = 16


@dataclass(frozen=True)
class _Part:
    path: Path
    tier: int
    rows: int
    table: pa.Table | None


class Writer:
    """A writer of parts, for one process. It joins only parts of its own, because others may write beside it.

    Args:
        folder: Folder of the scores.
        fan_out: Number of parts of one tier after which they are joined.
    """

    def __init__(self, folder: Path, fan_out: int = FAN_OUT) -> None:
        self.folder = folder
        self.fan_out = fan_out
        self._parts: dict[tuple[str, str], list[_Part]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Write rows to a new part; there is one for every space and data set among them."""
        now = time.time_ns()
        places: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            places.setdefault((row.space, row.dataset), []).append(row)
        for place, own in places.items():
            columns = {field.name: [getattr(row, field.name) for row in own] for field in fields(Row)}
            self._write(place, pa.table(columns | {"written_ns": [now] * len(own)}, schema=SCHEMA), tier=0)

    def close(self) -> None:
        """Join the parts that are left, the smallest first. A process killed meanwhile leaves equal rows twice."""
        for place, parts in self._parts.items():
            rest: list[_Part] = []
            for part in sorted(parts, key=lambda part: part.rows):
                if sum(each.rows for each in rest) + part.rows <= JOINED_ROWS:
                    rest.append(part)
            self._join(place, rest)

    def _write(self, place: tuple[str, str], table: pa.Table, tier: int) -> None:
        parts = self._parts.setdefault(place, [])
        # The rows of one network are kept, because opening a small file takes longer than to write it.
        parts.append(_Part(write(self.folder, table, tier), tier, len(table), None if tier else table))
        alike = [part for part in parts if part.tier == tier]
        if len(alike) >= self.fan_out and sum(part.rows for part in alike) <= JOINED_ROWS:
            self._join(place, alike)

    def _join(self, place: tuple[str, str], old: list[_Part]) -> None:
        if len(old) < 2:
            return
        tables = []
        for part in old:
            try:
                tables.append(read(part.path) if part.table is None else part.table)
            except FileNotFoundError:  # `zcbench results compact` has joined it meanwhile
                continue
        self._parts[place] = [part for part in self._parts[place] if part not in old]
        if tables:
            self._write(place, joined(tables), tier=max(part.tier for part in old) + 1)
        for part in old:
            part.path.unlink(missing_ok=True)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
