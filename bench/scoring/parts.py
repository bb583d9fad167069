"""The parts of a store: Parquet files of rows. A part is written whole or not at all, and is checked before it is read.

The name of a part holds a digest of its content, so every changed byte is found, wherever it lies. The name is
`TIER-ID-DIGEST.parquet`: the tier is 0 for the rows of one network and one more for every time that rows were joined.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...atomic import write_atomically
from ...errors import ResultsError, in_words, one_line

#: Version of the format; it goes up when older versions of zcbench cannot read new files.
FORMAT = 2
#: Statuses that are no property of a network: they are tried again, and a score takes their place.
ATTEMPTS = frozenset({"error", "out_of_memory", "crashed", "timeout"})
#: All statuses of a row.
STATUSES = ATTEMPTS | {"ok", "nan", "inf", "-inf", "not_applicable"}
#: Limits of a part: rows, bytes that it unpacks to, bytes of one text.
MOST_ROWS, MOST_BYTES, LONGEST_TEXT = 20_000_000, 2 << 30, 20_000
#: Rows of a group, whose least and greatest values let a reader pass it over.
GROUP_ROWS = 100_000
#: Rows that are joined to one part at most, because a join is made in memory.
JOINED_ROWS = 1_000_000


@dataclass(frozen=True)
class Row:
    """One score and its key: all fields but the last five. Rows with equal keys have equal values.

    The key holds all that the digits of a value depend on. `device` is there because sets of instructions sum in
    different orders, and `torch` because its releases compute convolutions by different algorithms.
    """

    space: str
    architecture: str
    dataset: str
    batch_hash: str
    batch_size: int
    seed: int
    proxy: str
    version: int
    protocol: str
    device: str
    torch: str
    value: float
    status: str
    message: str
    wall_s: float
    peak_mib: float


KEY = tuple(field.name for field in fields(Row))[:-5]

_ARROW = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
TEXTS = tuple(field.name for field in fields(Row) if field.type == "str")
#: Columns of a part: those of a row, and when it was written, by which the latest attempt is known. None may be empty.
SCHEMA = pa.schema(
    [
        *(pa.field(field.name, _ARROW[str(field.type)], nullable=False) for field in fields(Row)),
        pa.field("written_ns", pa.int64(), nullable=False),
    ],
    metadata={"zcbench.format": str(FORMAT)},
)
COLUMNS = tuple(SCHEMA.names)
#: The same columns in memory: each different text once.
_CODED = pa.schema(
    [field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in TEXTS else field for field in SCHEMA],
    metadata=SCHEMA.metadata,
)
_ORDER = ("proxy", "batch_size", "seed", "architecture")
#: Columns whose least and greatest values are written. Others would only make the many small parts larger.
_BOUNDED = ["space", "dataset", "proxy", "batch_size", "seed", "device", "torch"]
_NAME = re.compile(r"(?P<tier>\d{1,3})-[0-9a-f]{32}-(?P<digest>[0-9a-f]{32})")


def place(scores: Path, space: str, dataset: str) -> Path:
    """Return the folder of the parts of one space and data set; no name of either can lead out of `scores`."""
    return scores / f"space={quote(space, safe='')}" / f"dataset={quote(dataset, safe='')}"


def is_part(path: Path) -> bool:
    """Return whether a path is named as a part is: hidden files, and files of other systems, are none."""
    return path.suffix.lower() == ".parquet" and not path.name.startswith(".")


def joined(tables: list[pa.Table]) -> pa.Table:
    """Return the rows of several tables, sorted so that a group of rows holds few proxies."""
    plain = [table for table in tables if table.schema.equals(SCHEMA)]
    coded = [table.cast(_CODED) for table in tables if not table.schema.equals(SCHEMA)]
    # Small tables are joined before their texts are coded, because each cast of a column takes its time.
    table = pa.concat_tables([*coded, *([pa.concat_tables(plain).cast(_CODED)] if plain else [])]).unify_dictionaries()
    return table.take(pa.array(np.lexsort([_ranks(table[name]) for name in reversed(_ORDER)])))


def _ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return numbers in the order of the values. Arrow sorts no column that holds each different text once."""
    if not pa.types.is_dictionary(column.type) or not column.num_chunks:
        return np.asarray(column.to_numpy())
    known = column.chunk(0).dictionary
    ranks = np.empty(len(known), np.int64)
    ranks[pc.array_sort_indices(known).to_numpy()] = np.arange(len(known))
    return np.asarray(ranks[np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])])


def write(scores: Path, table: pa.Table, tier: int) -> Path:
    """Write a part whose rows all have one space and data set, and return its path.

    Raises:
        OSError: The folder cannot be written.
    """
    space, dataset = (table[name][0].as_py() for name in ("space", "dataset"))
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        use_dictionary=[name for name in COLUMNS if SCHEMA.field(name).type != pa.float64() and name != "written_ns"],
        write_statistics=_BOUNDED,
        write_page_checksum=True,
        # The schema of Arrow would make every small part larger by half, and say again what Parquet's says.
        store_schema=False,
    ) as file:
        file.write_table(table, row_group_size=GROUP_ROWS)
        file.add_key_value_metadata(SCHEMA.metadata)
    content = buffer.getvalue().to_pybytes()
    folder = place(scores, space, dataset)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{tier}-{uuid.uuid4().hex}-{hashlib.sha256(content).hexdigest()[:32]}.parquet"
    write_atomically(part, content)
    return part


def read(part: Path) -> pa.Table:
    """Check a part and return its rows.

    Raises:
        ResultsError: The part is damaged.
        FileNotFoundError: There is no such part any more.
    """
    check(part)
    with memory_named(f"results part {part}"):
        file = pq.ParquetFile(part, page_checksum_verification=True, read_dictionary=TEXTS)
        return file.read(columns=list(COLUMNS))


def check(part: Path) -> pq.FileMetaData:
    """Check all of a part but the values of its rows, and return what it says of itself.

    Raises:
        ResultsError: The part is damaged, of a newer format, or lies in the folder of another space or data set.
        FileNotFoundError: There is no such part any more.
    """
    named = _NAME.match(part.name)
    if not named:
        raise ResultsError(f"results part {part} has no name that zcbench gives: move it out of the folder")
    if not part.is_file() and os.path.lexists(part):
        raise ResultsError(f"results part {part} is no regular file: move it out of the folder")
    try:
        if (size := part.stat().st_size) > MOST_BYTES:
            raise _too_large(part, f"{size >> 20:,} MiB")
        whole = _digest(part) == named["digest"]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ResultsError(f"results part {part} cannot be read ({error.strerror}): delete it and run again") from None
    if not whole:
        raise ResultsError(
            f"results part {part} is torn (its content is not what its name says): delete it and run again"
        )
    with memory_named(f"results part {part}"):
        try:
            file = pq.ParquetFile(part)
            schema, metadata = file.schema_arrow, file.metadata
        except FileNotFoundError:
            raise
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ResultsError(f"results part {part} is no Parquet file ({_short(error)}): delete it") from None
        _check_format(part, schema)
        check_size(part, metadata)
        _check_columns(part, schema)
        _check_place(part, metadata)
    return metadata


def check_all(parts: Iterable[Path]) -> None:
    """Check parts before any of them is read.

    Raises:
        ResultsError: Parts are damaged; it names the first, and says how many there are.
        FileNotFoundError: There is no such part any more.
    """
    faults = []
    for part in parts:
        try:
            check(part)
        except ResultsError as error:
            faults.append(error)
    if len(faults) > 1:
        raise ResultsError(f"{faults[0]}; {len(faults) - 1} more are damaged, and zcbench results verify names them")
    if faults:
        raise faults[0]


def check_size(part: Path, metadata: pq.FileMetaData) -> None:
    """Refuse a part that would take more memory than its rows can need, before it is read.

    Raises:
        ResultsError: It is over a limit.
    """
    held = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if metadata.num_rows > MOST_ROWS or held > MOST_BYTES:
        raise _too_large(part, f"{metadata.num_rows:,} rows and {held >> 20:,} MiB unpacked")


@contextmanager
def memory_named(what: str) -> Iterator[None]:
    """Say that memory ran out, where Python or Arrow does.

    Raises:
        ResultsError: Memory ran out.
    """
    try:
        yield
    except MemoryError:
        raise out_of_memory(what) from None


def out_of_memory(what: str) -> ResultsError:
    """Return the error for memory that ran out; it blames no file."""
    return ResultsError(f"{what}: memory ran out while it was read; the file is whole: free memory and run again")


def _check_format(part: Path, schema: pa.Schema) -> None:
    found = (schema.metadata or {}).get(b"zcbench.format", b"?").decode("ascii", "replace")
    if found != str(FORMAT):
        raise ResultsError(
            f"results part {part} has format {found[:20]}, this zcbench reads format {FORMAT}: upgrade zcbench"
        )


def _check_columns(part: Path, schema: pa.Schema) -> None:
    # A column that must be filled holds no null, so this is the check of nulls too.
    if schema.equals(SCHEMA, check_metadata=False):
        return
    wrong = [name for name in COLUMNS if name not in schema.names or schema.field(name) != SCHEMA.field(name)]
    wrong += [name for name in schema.names if name not in COLUMNS]
    raise ResultsError(f"results part {part} has other columns ({one_line(', '.join(wrong))[:80]}): delete it")


def _check_place(part: Path, metadata: pq.FileMetaData) -> None:
    expected = [
        unquote(folder.name.removeprefix(f"{name}="))
        for folder, name in ((part.parent.parent, "space"), (part.parent, "dataset"))
    ]
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column, name in ((0, expected[0]), (COLUMNS.index("dataset"), expected[1])):
            bounds = group.column(column).statistics
            if bounds is None or not bounds.has_min_max or {bounds.min, bounds.max} != {name}:
                found = f"from {bounds.min} to {bounds.max}" if bounds and bounds.has_min_max else "unknown ones"
                raise ResultsError(
                    f"results part {part}: expected rows of the {COLUMNS[column]} {name}, as its folder says, got "
                    f"{one_line(found)[:200]}: move it back"
                )


def _digest(part: Path) -> str:
    with part.open("rb", buffering=0) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]


def _too_large(part: Path, got: str) -> ResultsError:
    return ResultsError(
        f"results part {part}: expected at most {MOST_ROWS:,} rows and {MOST_BYTES >> 20:,} MiB, got {got}: delete it"
    )


def _short(error: Exception) -> str:
    return in_words(error)
