"""Scores from a file into a results folder, so that a run goes on from what another machine has measured."""

from __future__ import annotations

import fcntl
import math
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...errors import ResultsError, in_words
from ...progress import Progress
from ..scoring.parts import COLUMNS, SCHEMA, check_all, check_size, joined, memory_named, write
from ..scoring.questions import check_cells, connected
from ..scoring.store import Store
from .holdings import LAST_TIER, contradictions, pieces
from .published.sources import SCORES

#: How the name of the folder begins in which an import makes its parts.
_BESIDE = ".import-"

#: Least value of the whole numbers of a row; random scores have a batch of 0.
_LEAST = {"version": 1, "batch_size": 0, "seed": 0, "written_ns": 0}


def take(store: Store, path: Path) -> int:
    """Add the rows of a file to a results folder, and return how many there are.

    Args:
        store: Results folder; it is made if it does not exist.
        path: File of `zcbench results export`, or a leaderboard, which holds its scores.

    Raises:
        ResultsError: The file is torn, holds what zcbench does not write, or has another value for a key that the
            folder has too. Then nothing is added.
    """
    file = path / SCORES if path.is_dir() else path
    if not file.is_file():
        raise ResultsError(
            f"results import: expected a file of zcbench results export, or a leaderboard, got {path}: export a "
            "results folder first"
        )
    rows = _read(file)
    store.create()
    with _alone(store), TemporaryDirectory(dir=store.folder, prefix=_BESIDE) as beside:
        try:
            new = [write(Path(beside), table, LAST_TIER) for table in _places(rows)]
        except OSError as error:
            raise ResultsError(f"results import: cannot write to {store.folder} ({error.strerror})") from None
        # All rows of the file are looked at before the first of them is there.
        with Progress("parts looked at", len(new)) as progress:
            for part in new:
                _look(store, part, file)
                progress.advance(1)
        for part in new:
            folder = store.scores / part.parent.relative_to(beside)
            folder.mkdir(parents=True, exist_ok=True)
            part.rename(folder / part.name)
    return len(rows)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Wait until no other import goes into a results folder, and remove what imports that were killed have left there.

    An import holds a lock on the manifest. The system frees the lock of a process that ends, however it ends. Where
    there is no lock to have, imports do not wait, and what is left stays.
    """
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(store.manifest.open("r+b"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sys.stderr.write(f"zcbench: waiting until another import into {store.folder} has ended\n")
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            pass
        else:
            for left in store.folder.glob(f"{_BESIDE}*"):
                shutil.rmtree(left, ignore_errors=True)
        yield


def _read(file: Path) -> pa.Table:
    try:
        with memory_named(f"results import: {file}"):
            opened = pq.ParquetFile(file)
            check_size(file, opened.metadata)
            if missing := [name for name in COLUMNS if name not in opened.schema_arrow.names]:
                raise ResultsError(f"results import: {file} has no column {missing[0]}: export the scores again")
            rows = opened.read(columns=list(COLUMNS))
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise ResultsError(
            f"results import: expected a Parquet file of zcbench results export, or a leaderboard, got {file} "
            f"({in_words(error)})"
        ) from None
    # pandas writes a value that is no number as an empty cell.
    filled = [pc.fill_null(rows[name], math.nan) if _is_float(rows[name]) else rows[name] for name in COLUMNS]
    for name, column in zip(COLUMNS, filled, strict=True):
        if column.null_count:
            raise ResultsError(
                f"results import: {file}, column {name}: expected no empty cell: export the scores again"
            )
    try:
        table = pa.table(filled, names=COLUMNS).cast(SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        raise ResultsError(f"results import: {file} has other columns ({in_words(error)})") from None
    _possible(table, file)
    return table


def _possible(table: pa.Table, file: Path) -> None:
    """Refuse numbers that no score has.

    Raises:
        ResultsError: A score is no number, or a count or a time is impossible.
    """
    of = {name: table[name].to_numpy() for name in (*_LEAST, "value", "wall_s")}
    wrong = [name for name, least in _LEAST.items() if (of[name] < least).any()]
    wrong += ["value"] if (~np.isfinite(of["value"]) & (table["status"].to_numpy() == "ok")).any() else []
    wrong += ["wall_s"] if ((of["wall_s"] < 0) | np.isinf(of["wall_s"])).any() else []
    wrong += [
        name for name in ("space", "dataset", "architecture", "proxy") if pc.any(pc.equal(table[name], "")).as_py()
    ]
    if wrong:
        raise ResultsError(
            f"results import: {file}, column {wrong[0]}: expected what zcbench writes, got impossible values"
        )


def _is_float(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_floating(column.type))


def _places(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of each space and data set."""
    pairs = rows.select(["space", "dataset"]).group_by(["space", "dataset"]).aggregate([]).to_pylist()
    for pair in sorted(pairs, key=lambda pair: (pair["space"], pair["dataset"])):
        own = pc.and_(pc.equal(rows["space"], pair["space"]), pc.equal(rows["dataset"], pair["dataset"]))
        yield joined([rows.filter(own)])


def _look(store: Store, part: Path, file: Path) -> None:
    """Refuse rows that zcbench does not write, and values that are not those of the folder."""
    beside = part.parents[2]
    there = store.scores / part.parent.relative_to(beside)
    parts = [*(own for own in store.parts() if own.parent == there), part]
    check_all(parts)
    with connected(store.scores, beside) as connection:
        try:
            check_cells(connection, [part])
            for where in pieces(connection, [part]):
                for fault in contradictions(connection, parts, where):
                    raise ResultsError(fault)
        except ResultsError as error:
            raise ResultsError(str(error).replace(str(part), str(file))) from None
