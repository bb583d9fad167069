"""The store of scores: rows with their keys in Parquet parts. A part is written completely or not at all."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...atomic import write_atomically
from ...errors import ResultsError, one_line
from ..study.recipe import Key

#: Version of the format; it goes up when older versions of zcbench cannot read new files.
FORMAT = 1
_MANIFEST = "zcbench.json"
#: Statuses that are no property of a network: they are tried again, and a score takes their place.
ATTEMPTS = frozenset({"error", "out_of_memory", "crashed", "timeout"})
#: Limits of a part: rows, bytes that it unpacks to, bytes of one text.
MOST_ROWS, MOST_BYTES, LONGEST_TEXT = 20_000_000, 2 << 30, 20_000


@dataclass(frozen=True)
class Row:
    """One score and its key: all fields but the last five. Rows with equal keys have equal values."""

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
    value: float
    status: str
    message: str
    wall_s: float
    peak_mib: float


KEY = tuple(field.name for field in fields(Row))[:-5]

_ARROW = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
_TEXTS = [field.name for field in fields(Row) if field.type == "str"]
_SCHEMA = pa.schema(
    [pa.field(field.name, _ARROW[str(field.type)]) for field in fields(Row)],
    metadata={"zcbench.format": str(FORMAT)},
)


class Store:
    """A results folder.

    Args:
        folder: Path of the folder; `create` makes it.

    Raises:
        ResultsError: The folder was written by a newer zcbench, or is no results folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = folder / _MANIFEST
        if manifest.exists():
            try:
                found = int(json.loads(manifest.read_text("utf-8-sig"))["format"])
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError) as error:
                raise ResultsError(
                    f"results {manifest} is torn ({one_line(str(error))}): restore or delete it"
                ) from None
            if found > FORMAT:
                raise ResultsError(
                    f"results {folder} have format {found}, this zcbench reads up to {FORMAT}: upgrade zcbench or "
                    "choose another --out"
                )
        elif folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
            raise ResultsError(
                f"out: {folder} holds files but no {_MANIFEST}, so it is no results folder: choose another"
            )

    def create(self) -> None:
        """Make the folder and its manifest.

        Raises:
            ResultsError: The folder cannot be written.
        """
        from ... import __version__

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # The manifest comes first, because a folder that has files and no manifest is refused.
            if not (self.folder / _MANIFEST).exists():
                write_atomically(
                    self.folder / _MANIFEST, json.dumps({"format": FORMAT, "zcbench": __version__}).encode()
                )
            (self.folder / "scores").mkdir(exist_ok=True)
            (self.folder / "runs").mkdir(exist_ok=True)
            probe = self.folder / "scores" / f".{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ResultsError(
                f"out: cannot write to {self.folder} ({error.strerror}): choose another folder"
            ) from None

    def parts(self) -> list[Path]:
        """Return the Parquet parts, in a fixed order."""
        return sorted(p for p in (self.folder / "scores").glob("*.parquet") if not p.name.startswith("."))

    def read(self) -> pd.DataFrame:
        """Return all rows, one per key: a score, or else an attempt that gave none.

        Raises:
            ResultsError: A part is torn or of a newer format, or two rows have one key and different values.
        """
        table = pa.concat_tables(self._tables() or [_SCHEMA.empty_table()])
        every: pd.DataFrame = table.to_pandas()
        failed = every["status"].isin(ATTEMPTS)
        frame = self._one_per_key(every[~failed])
        if not failed.any():
            return frame
        return pd.concat([frame, every[failed]]).drop_duplicates(list(KEY), keep="first", ignore_index=True)

    def _one_per_key(self, frame: pd.DataFrame) -> pd.DataFrame:
        repeated = frame[frame.duplicated(list(KEY), keep=False)]
        for key, rows in repeated.groupby(list(KEY), sort=False):
            if not _same(rows["value"].to_numpy()):
                raise ResultsError(
                    f"results {self.folder} hold different values for one key {dict(zip(KEY, key, strict=True))}: "
                    "delete the wrong part"
                )
        return frame.drop_duplicates(list(KEY), ignore_index=True)

    def _tables(self) -> list[pa.Table]:
        for _ in range(100):
            try:
                return [_read_part(part) for part in self.parts()]
            except FileNotFoundError:  # a writer has just joined its parts; the joined part is there already
                continue
        raise ResultsError(
            f"results {self.folder}: expected parts that stay, got parts that another run joins: wait until it ends"
        )

    def keys(self) -> set[Key]:
        """Return the keys of all scores, without those of which every attempt failed."""
        rows = self.read()
        return set(rows.loc[~rows["status"].isin(ATTEMPTS), list(KEY)].itertuples(index=False, name=None))

    def writer(self) -> Writer:
        """Return a new writer, for one process."""
        return Writer(self.folder / "scores")


class Writer:
    """A writer of parts. Every call writes one part at once, so no finished score is lost; parts are joined later.

    Args:
        folder: Folder of the parts.
        join_every: Number of parts of this writer after which they are joined.
    """

    def __init__(self, folder: Path, join_every: int = 64) -> None:
        self.folder = folder
        self.join_every = join_every
        self._parts: list[Path] = []

    def add(self, rows: Iterable[Row]) -> None:
        """Write rows to a new part."""
        table = pa.Table.from_pylist([asdict(row) for row in rows], schema=_SCHEMA)
        self._write(table)
        if len(self._parts) >= self.join_every:
            self.close()

    def close(self) -> None:
        """Join the parts of this writer into one. A process killed meanwhile leaves rows twice, which `read` allows."""
        if len(self._parts) > 1:
            old, self._parts = self._parts, []
            self._write(pa.concat_tables([_read_part(part) for part in old]))
            for part in old:
                part.unlink()

    def _write(self, table: pa.Table) -> None:
        part = self.folder / f"{uuid.uuid4().hex}.parquet"
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
        write_atomically(part, buffer.getvalue().to_pybytes())
        self._parts.append(part)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read_part(part: Path) -> pa.Table:
    try:
        # `read_table` would take names of folders for hive partitions.
        known = pq.read_schema(part).names
        texts = [name for name in _TEXTS if name in known]
        file = pq.ParquetFile(part, page_checksum_verification=True, read_dictionary=texts)
        _check_size(part, file)
        table = file.read(columns=_SCHEMA.names)
        _check_texts(part, table)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ResultsError(
            f"results part {part} is torn ({one_line(str(error))[:80]}): delete it and run again"
        ) from None
    found = (table.schema.metadata or {}).get(b"zcbench.format", b"?").decode("ascii", "replace")
    if not found.isdecimal() or int(found) > FORMAT:
        raise ResultsError(
            f"results part {part} has format {found}, this zcbench reads up to {FORMAT}: upgrade zcbench"
        )
    try:
        return table.select(_SCHEMA.names).cast(_SCHEMA)
    except (KeyError, pa.ArrowException) as error:
        raise ResultsError(f"results part {part} has other columns ({one_line(str(error))[:80]}): delete it") from None


def _check_size(part: Path, file: pq.ParquetFile) -> None:
    """Refuse a part that would take more memory than its rows can need, before it is read."""
    rows = file.metadata.num_rows
    held = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
    if rows > MOST_ROWS or held > MOST_BYTES:
        raise ResultsError(
            f"results part {part}: expected at most {MOST_ROWS:,} rows and {MOST_BYTES >> 20:,} MiB, got {rows:,} rows "
            f"and {held >> 20:,} MiB unpacked: delete it"
        )


def _check_texts(part: Path, table: pa.Table) -> None:
    """Refuse texts that are longer than zcbench writes, while each different text is in memory once."""
    for name in table.column_names:
        for chunk in table[name].chunks:
            if isinstance(chunk, pa.DictionaryArray) and len(chunk.dictionary):
                longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0
                if longest > LONGEST_TEXT:
                    raise ResultsError(
                        f"results part {part}: expected texts of at most {LONGEST_TEXT:,} bytes, got one of "
                        f"{longest:,} in the column {name[:40]}: delete it"
                    )


def _same(values: np.ndarray[Any, Any]) -> bool:
    return bool(np.all((values == values[0]) | (np.isnan(values) & np.isnan(values[0]))))
