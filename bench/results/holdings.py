"""What a results folder holds: counted, verified to the last byte, joined, and exported."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ...errors import ConfigError, ResultsError, in_words
from ...progress import Progress
from ..scoring.parts import COLUMNS, JOINED_ROWS, KEY, SCHEMA, check, check_all, is_part, memory_named, write
from ..scoring.questions import FAILED, check_cells, connected, table_of, text
from ..scoring.store import Store
from .board import read_record, records

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Tier of the parts that `compact` has joined.
LAST_TIER = 99


def show(store: Store) -> dict[str, Any]:
    """Return what a results folder holds: by space and data set, and in these by device and release of torch.

    Raises:
        ResultsError: A part or a record is damaged.
    """
    store.upgrade()
    runs: dict[tuple[str, ...], int] = {}
    paths = records(store.folder)
    for recipe in (read_record(path).recipe for path in paths):
        of = (recipe.space, recipe.dataset, recipe.device, recipe.torch)
        runs[of] = runs.get(of, 0) + 1

    def ask() -> list[dict[str, Any]]:
        places = store.places()
        with Progress("parts read", sum(len(parts) for _, parts in places)) as progress:
            return [_held(store, parts, runs, progress) for _, parts in places]

    held = store.whole(ask)
    return {
        "folder": str(store.folder),
        "runs": len(paths),
        "parts": sum(each["parts"] for each in held),
        "bytes": sum(each["bytes"] for each in held),
        "holdings": held,
    }


def _held(
    store: Store, parts: Sequence[Path], runs: Mapping[tuple[str, ...], int], progress: Progress
) -> dict[str, Any]:
    for part in parts:
        check(part)
        progress.advance(1)
    with connected(store.scores) as connection:
        found = connection.execute(
            "SELECT space, dataset, device, torch, count(DISTINCT architecture), count(DISTINCT proxy), "
            "list_sort(list(DISTINCT batch_size)), list_sort(list(DISTINCT seed)), "
            f"count(*) FILTER (NOT {FAILED}), histogram(status) FILTER ({FAILED}) "
            f"FROM {table_of(parts)} GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    names = ("device", "torch", "networks", "proxies", "batch_sizes", "seeds", "scores")
    machines = [
        dict(zip(names, row[2:9], strict=True)) | {"attempts": dict(row[9] or {}), "runs": runs.get(row[:4], 0)}
        for row in found
    ]
    size = sum(part.stat().st_size for part in parts)
    return {"space": found[0][0], "dataset": found[0][1], "parts": len(parts), "bytes": size, "machines": machines}


def faults(store: Store) -> Iterator[str]:
    """Read all of a results folder, and yield every fault as one line."""
    store.upgrade()
    for folder in (store.scores, store.runs):
        if not folder.is_dir():
            yield f"results {folder}: expected a folder, got {'a file' if folder.exists() else 'none'}: restore it"
    for path in records(store.folder):
        try:
            read_record(path)
        except ResultsError as error:
            yield str(error)
    every = sorted(path for path in store.scores.rglob("*") if is_part(path))
    listed = set(store.parts())
    with Progress("parts verified", len(every)) as progress:
        whole: dict[Path, list[Path]] = {}
        for part in every:
            if part not in listed:
                yield f"results part {part} lies in no folder of a space and a data set: move it back"
            elif fault := _fault(store, part):
                yield fault
            elif part.exists():
                whole.setdefault(part.parent, []).append(part)
            progress.advance(1)
    for parts in whole.values():
        try:
            with connected(store.scores) as connection:
                yield from _wrong_cells(connection, parts)
                for where in pieces(connection, parts):
                    yield from contradictions(connection, parts, where)
        except FileNotFoundError:
            yield f"results {parts[0].parent}: another run joins parts: verify again when it has ended"


def _fault(store: Store, part: Path) -> str:
    """Return what is wrong with a part, every row of which is read; nothing if another run has just joined it."""
    try:
        check(part)
        with memory_named(f"results part {part}"):
            for _ in pq.ParquetFile(part, page_checksum_verification=True).iter_batches(columns=list(COLUMNS)):
                pass
    except ResultsError as error:
        return str(error)
    except FileNotFoundError:
        return ""
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"results part {part} cannot be read ({in_words(error)}): delete it and run again"
    return ""


def _wrong_cells(connection: DuckDBPyConnection, parts: Sequence[Path]) -> Iterator[str]:
    """Yield a line for every part that holds what zcbench does not write. One look tells if there is none."""
    try:
        check_cells(connection, parts)
    except ResultsError as error:
        if len(parts) == 1:
            yield str(error)
            return
        for part in parts:
            yield from _wrong_cells(connection, [part])


def compact(store: Store) -> tuple[int, int]:
    """Join the parts of every space and data set, and return how many parts there were and how many there are.

    Of equal rows the first that was written stays. Attempts go where a score has taken their place. It may be killed at
    any moment: old parts are removed when all new ones are there.

    Raises:
        ResultsError: A part is damaged, or two rows have one key and different values; nothing is removed then.
    """
    store.create()
    before = len(store.parts())
    with Progress("parts joined", before) as progress:
        for folder, _ in store.places():
            progress.advance(store.whole(lambda folder=folder: _compact(store, folder)))  # type: ignore[misc]
    return before, len(store.parts())


def _compact(store: Store, folder: Path) -> int:
    old = sorted(path for path in folder.iterdir() if is_part(path))
    new: list[Path] = []
    waiting: list[pa.Table] = []

    def flush() -> None:
        if waiting:
            new.append(write(store.scores, pa.concat_tables(waiting), LAST_TIER))
            waiting.clear()

    try:
        check_all(old)
        with connected(store.scores) as connection:
            check_cells(connection, old)
            for where in pieces(connection, old):
                for fault in contradictions(connection, old, where):
                    raise ResultsError(fault)
                waiting.append(_chosen(connection, old, where, attempts=True))
                if sum(map(len, waiting)) >= JOINED_ROWS:
                    flush()
        flush()
    except BaseException:
        for part in new:
            part.unlink(missing_ok=True)
        raise
    for part in old:
        part.unlink(missing_ok=True)
    return len(old)


def export(store: Store, path: Path, only: Mapping[str, str]) -> int:
    """Write the rows of a results folder to a file, one per key: the score, or else the latest attempt.

    Args:
        store: Results folder.
        path: File whose ending says its form: `.csv`, `.parquet` or `.json`.
        only: Value that a column must have, by column.

    Returns:
        Number of rows.

    Raises:
        ConfigError: The form is unknown, or the file cannot be written.
        ResultsError: A part is damaged.
    """
    if path.suffix not in _FORMS:
        raise ConfigError(f"results export: expected a file that ends in {', '.join(_FORMS)}, got {path}")
    store.upgrade()
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        beside.touch()
    except OSError as error:
        raise ConfigError(f"results export: cannot write {path} ({error.strerror}): choose another") from None

    def ask() -> int:
        count = 0
        places = store.places()
        with _FORMS[path.suffix](beside) as put, Progress("folders exported", len(places)) as progress:
            for _, parts in places:
                check_all(parts)
                with connected(store.scores) as connection:
                    check_cells(connection, parts)
                    for where in pieces(connection, parts, only):
                        for fault in contradictions(connection, parts, where):
                            raise ResultsError(fault)
                        table = _chosen(connection, parts, where, attempts=False)
                        put(table)
                        count += len(table)
                progress.advance(1)
        return count

    try:
        count = store.whole(ask)
        if only and not count:
            named = ", ".join(f"{name} {value}" for name, value in only.items())
            raise ConfigError(f"results export: {store.folder} has no rows of {named}: see zcbench results show")
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"results export: cannot write {path} ({error.strerror}): choose another") from None
    finally:
        beside.unlink(missing_ok=True)
    return count


def pieces(connection: DuckDBPyConnection, parts: Sequence[Path], only: Mapping[str, str] | None = None) -> list[str]:
    """Return conditions of SQL that divide rows into pieces that fit into memory, in the order of joined rows."""
    wanted = " AND ".join(["true", *(f"{name} = {text(value)}" for name, value in (only or {}).items())])
    found = connection.execute(
        f"SELECT DISTINCT proxy, batch_size FROM {table_of(parts)} WHERE {wanted} ORDER BY ALL"
    ).fetchall()
    return [f"{wanted} AND proxy = {text(proxy)} AND batch_size = {size}" for proxy, size in found]


def _chosen(connection: DuckDBPyConnection, parts: Sequence[Path], where: str, *, attempts: bool) -> pa.Table:
    """Return the rows of a piece: one per key, or with `attempts` every attempt of a key that has no score."""
    key = ", ".join(KEY)
    apart = f"{key}, CASE WHEN {FAILED} THEN written_ns END" if attempts else key
    first = f"{FAILED}, CASE WHEN {FAILED} THEN -written_ns ELSE written_ns END, wall_s"
    names = ", ".join(COLUMNS)
    rows: pa.Table = connection.sql(
        f"SELECT {names} FROM (SELECT *, row_number() OVER (PARTITION BY {apart} ORDER BY {first}) AS nth, "
        f"bool_or(NOT {FAILED}) OVER (PARTITION BY {key}) AS scored FROM {table_of(parts)} WHERE {where}) "
        f"WHERE nth = 1 AND NOT (scored AND {FAILED}) ORDER BY seed, architecture, {key}, written_ns"
    ).to_arrow_table()
    return rows.cast(SCHEMA)


def contradictions(connection: DuckDBPyConnection, parts: Sequence[Path], where: str) -> Iterator[str]:
    """Yield a line for every key of a piece that has different values."""
    key = ", ".join(KEY)
    found = connection.execute(
        f"SELECT {key}, min(value), max(value), arg_min(filename, value), arg_max(filename, value) "
        f"FROM {table_of(parts)} WHERE {where} AND NOT {FAILED} GROUP BY {key} "
        "HAVING min(value) IS DISTINCT FROM max(value) ORDER BY ALL"
    ).fetchall()
    for *values, least, most, one, other in found:
        files = " and ".join(dict.fromkeys((one, other)))
        yield (
            f"results hold different values for one key, {least!r} and {most!r} in {files}: delete the wrong part; the "
            f"key is {dict(zip(KEY, values, strict=True))}"
        )


@contextmanager
def _csv(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    with pyarrow.csv.CSVWriter(path, SCHEMA) as file:
        yield file.write_table


@contextmanager
def _parquet(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as file:
        yield file.write_table


@contextmanager
def _json(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Write a list of records; a number that is not finite is null."""
    with path.open("w", encoding="utf-8") as file:
        before = "[\n"

        def put(table: pa.Table) -> None:
            nonlocal before
            for row in table.to_pylist():
                plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
                file.write(before + json.dumps(plain, allow_nan=False))
                before = ",\n"

        yield put
        file.write("[]\n" if before == "[\n" else "\n]\n")


_FORMS = {".csv": _csv, ".parquet": _parquet, ".json": _json}
