"""The way from the former format of the store to this one: rows get the device and the torch that made them.

Parts of format 1 lie side by side in `scores/`. Their rows name a class of device and no release of torch, and two
machines could give one key two values. The records of the runs say which machine and which release it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...atomic import write_atomically
from ...environment import torch_release
from ...errors import ResultsError, in_words, kind_of
from .parts import COLUMNS, JOINED_ROWS, LONGEST_TEXT, SCHEMA, TEXTS, check_size, is_part, joined, memory_named, write

#: The format before this one.
FORMER = 1
#: Release of torch where the records do not say it; no study asks for it, so such rows are kept and never used again.
UNKNOWN = "unknown"

_ADDED = ("torch", "written_ns")
_FORMER = [field for field in SCHEMA if field.name not in _ADDED]


def strays(folder: Path) -> list[Path]:
    """Return the parts that lie where format 1 has them."""
    scores = folder / "scores"
    return sorted(path for path in (scores.iterdir() if scores.is_dir() else ()) if is_part(path))


def migrate(folder: Path, write_manifest: Callable[[], None]) -> None:
    """Bring a results folder to this format.

    It may be killed and begun again at any moment: what is new is written before what is old is removed, and equal rows
    may be there twice.

    Args:
        folder: Results folder, of format 1, or of this format with parts that an earlier call could not remove.
        write_manifest: Writes the manifest of this format.

    Raises:
        ResultsError: A part or a record is damaged.
        OSError: The folder cannot be written.
    """
    records = {path: _record(path) for path in sorted((folder / "runs").glob("*.json")) if path.name[0] != "."}
    machines = {_machine(record) for record in records.values()}
    cpu, torch = machines.pop() if len(machines) == 1 else ("", UNKNOWN)
    old = strays(folder)
    sys.stderr.write(
        f"results {folder}: {len(old)} parts of format {FORMER} get the device and the release of torch: "
        f"{_device('cpu', cpu)}, torch {torch}\n"
    )
    for part in old:
        for table in _tables(part, cpu, torch):
            for place in table.group_by(["space", "dataset"]).aggregate([]).to_pylist():
                own = table.filter((pc.field("space") == place["space"]) & (pc.field("dataset") == place["dataset"]))
                write(folder / "scores", own, tier=1)
    for path, record in records.items():
        recipe = record.get("recipe")
        if isinstance(recipe, dict) and "torch" not in recipe:
            recipe |= {"device": _device(str(recipe.get("device")), cpu), "torch": torch}
            write_atomically(path, json.dumps(record, indent=1, allow_nan=False).encode())
    write_manifest()
    for part in old:
        part.unlink(missing_ok=True)


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text("utf-8"))
        if not isinstance(record, dict):
            raise ValueError(f"expected names and values, got {kind_of(record)}")
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(f"record {path} is torn ({in_words(error)}): delete it") from None
    return record


def _machine(record: dict[str, Any]) -> tuple[str, str]:
    """Return the set of instructions of the CPU and the release of torch that a record says its scores are from."""
    environment = record.get("environment")
    if not isinstance(environment, dict) or not {"cpu", "torch"} <= set(environment):
        return "", UNKNOWN
    return str(environment["cpu"]), torch_release(str(environment["torch"]))


def _device(former: str, cpu: str) -> str:
    """Return the new text of a device: the former one has the class and the precision."""
    kind, _, precision = former.partition(" ")
    return " ".join(filter(None, (kind, cpu if kind == "cpu" else "", precision)))


def _tables(part: Path, cpu: str, torch: str) -> Iterator[pa.Table]:
    """Read a part of format 1 piece by piece, and yield its rows in the columns of this format."""
    # Rows are known by when they were written; this time stays the same when a killed call begins again.
    try:
        written = part.stat().st_mtime_ns
    except FileNotFoundError:  # another process migrates the same folder
        return
    with memory_named(f"results part {part}"):
        try:
            schema = pq.read_schema(part)
            texts = [name for name in TEXTS if name in schema.names]
            file = pq.ParquetFile(part, page_checksum_verification=True, read_dictionary=texts)
            found = (schema.metadata or {}).get(b"zcbench.format", b"?")
            if found != str(FORMER).encode():
                raise ResultsError(
                    f"results part {part} has format {found.decode('ascii', 'replace')[:20]}, expected {FORMER} here: "
                    "move it back to where it was"
                )
            check_size(part, file.metadata)
            if wrong := [f.name for f in _FORMER if f.name not in schema.names or schema.field(f.name).type != f.type]:
                raise ResultsError(f"results part {part} has other columns ({', '.join(wrong)}): delete it")
            for batch in file.iter_batches(JOINED_ROWS, columns=[field.name for field in _FORMER]):
                table = pa.Table.from_batches([batch])
                if any(column.null_count for column in table.columns):
                    raise ResultsError(f"results part {part} has empty cells: delete it")
                _check_texts(part, table)
                yield joined([_with_machine(table, cpu, torch, written)])
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ResultsError(f"results part {part} is torn ({in_words(error)}): delete it and run again") from None


def _with_machine(table: pa.Table, cpu: str, torch: str, written: int) -> pa.Table:
    devices = table["device"].cast(pa.string())
    for former in devices.unique().to_pylist():
        devices = pc.if_else(pc.equal(devices, former), _device(former, cpu), devices)
    table = table.set_column(table.column_names.index("device"), "device", devices)
    table = table.append_column("torch", pa.array([torch] * len(table), pa.string()))
    return table.append_column("written_ns", pa.array([written] * len(table), pa.int64())).select(list(COLUMNS))


def _check_texts(part: Path, table: pa.Table) -> None:
    """Refuse texts that are longer than zcbench writes, while each different text is in memory once."""
    for name in TEXTS:
        for chunk in table[name].chunks if name in table.column_names else ():
            known = chunk.dictionary if isinstance(chunk, pa.DictionaryArray) else chunk
            longest = pc.max(pc.binary_length(known)).as_py() or 0
            if longest > LONGEST_TEXT:
                raise ResultsError(
                    f"results part {part}: expected texts of at most {LONGEST_TEXT:,} bytes, got one of {longest:,} in "
                    f"the column {name}: delete it"
                )
