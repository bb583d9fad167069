"""Tables of networks and their accuracies: streamed from text, checked, converted once where they are large."""

from __future__ import annotations

import contextlib
import csv
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..atomic import write_atomically
from ..errors import ArchitectureError, DataFileError

T = TypeVar("T")

#: What an accuracy in percent may be: above the first, up to the second. A network that says nothing has its chance.
PERCENT = (0.0, 100.0)


@dataclass(frozen=True)
class Table:
    """The networks of a file, in its order.

    Attributes:
        path: The file.
        architectures: One text per row, no two equal.
        columns: Accuracies by name, float64 by row; NaN where the file has none.
    """

    path: Path
    architectures: tuple[str, ...]
    columns: Mapping[str, NDArray[np.float64]]


def read_csv(
    path: Path, needed: Collection[str], read: Callable[[Mapping[str, str]], T], header: Collection[str] | None = None
) -> Iterator[T]:
    """Stream the rows of a table of text through `read`.

    Args:
        path: The file.
        needed: Columns that must be there.
        read: Makes of a row what is wanted; what it raises is reported with the line.
        header: Names of the columns where the file has none.

    Raises:
        DataFileError: The file cannot be read, is no table, lacks a column, or `read` fails on a row.
    """
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = csv.DictReader(stream, fieldnames=None if header is None else list(header), strict=True)
            if missing := set(needed) - set(rows.fieldnames or ()):
                found = ", ".join(rows.fieldnames or ("nothing",))
                raise DataFileError(
                    f"data file {path}: expected columns {', '.join(sorted(missing))[:200]}, got {found[:80]}"
                )
            for row in rows:
                try:
                    if None in row or None in row.values():
                        raise ValueError(f"expected {len(rows.fieldnames or ())} fields")
                    yield read(row)
                except (ArchitectureError, LookupError, TypeError, ValueError) as error:
                    reason = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else str(error)
                    raise DataFileError(
                        f"data file {path}, line {rows.line_num}: {reason}; the file is torn: get it anew"
                    ) from None
    except OSError as error:
        raise DataFileError(f"data file {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataFileError(f"data file {path} is not a table of text ({error}): get it anew") from None


def number(text: str, bounds: tuple[float, float] = PERCENT) -> float:
    """Read an accuracy, above the first bound and up to the second.

    Raises:
        ValueError: It is no number or out of bounds.
    """
    value = float(text)
    low, high = bounds
    if not low < value <= high:
        raise ValueError(f"expected an accuracy above {low:g} and up to {high:g}, got {text}")
    return value


def by_index(path: Path, rows: Iterable[tuple[int, float]], size: int) -> NDArray[np.float64]:
    """Put accuracies in the order of the index.

    Raises:
        DataFileError: An index is missing or stands there twice.
    """
    values = np.full(size, np.nan)
    for index, accuracy in rows:
        if not np.isnan(values[index]):
            raise DataFileError(f"data file {path}: network {index} stands there twice")
        values[index] = accuracy
    if missing := int(np.isnan(values).sum()):
        raise DataFileError(
            f"data file {path}: {missing} of {size} networks are missing; the file is torn: get it anew"
        )
    return values


def table(
    path: Path, names: Collection[str], rows: Iterable[tuple[str, Collection[float]]], *, repeated: bool = False
) -> Table:
    """Make a table of rows: the text of a network and its accuracies in the order of `names`.

    Raises:
        DataFileError: A network stands there twice (unless `repeated`, where the first row counts), or none does.
    """
    found: dict[str, tuple[float, ...]] = {}
    for architecture, accuracies in rows:
        if architecture in found:
            if repeated:
                continue
            raise DataFileError(f"data file {path}: {architecture[:80]} stands there twice")
        found[architecture] = tuple(accuracies)
    if not found:
        raise DataFileError(f"data file {path} lists no networks: get it anew")
    values = np.asarray(list(found.values()), dtype=np.float64).reshape(len(found), len(names))
    return Table(path, tuple(found), {name: values[:, i].copy() for i, name in enumerate(names)})


def converted(originals: Sequence[Path], name: str, version: int, read: Callable[[], Table]) -> Table:
    """Read a large table once and keep it as Parquet; later calls read that, which takes milliseconds.

    The copy lies in `.zcbench/` beside the original, or in the user's cache where that folder cannot be written. Its
    name is the hash of the original's bytes and of the reader's version, so it never stands for another file; one that
    is torn is made anew, and older ones of the same name are removed.

    Args:
        originals: The files that `read` reads, in one folder.
        name: What to call the copy.
        version: Of the reader: goes up when the same files give another table.
        read: Reads the originals.

    Raises:
        DataFileError: What `read` raises, or an original cannot be read.
    """
    digest = _digest(originals, name, version)
    folder = originals[0].parent
    places = [platformdirs.user_cache_path("zcbench") / "tables"]
    if folder.stat().st_mode & 0o222:  # whoever may do everything respects a folder that is not to be written
        places.insert(0, folder / ".zcbench")
    for place in places:
        if (copy := _copy(place / f"{name}-{digest}.parquet", digest, folder)) is not None:
            return copy
    found = read()
    columns = {"architecture": pa.array(found.architectures), **{k: pa.array(v) for k, v in found.columns.items()}}
    content = pa.BufferOutputStream()
    kept = pa.table(columns).replace_schema_metadata({"zcbench.digest": digest, "zcbench.path": str(found.path)})
    pq.write_table(kept, content, compression="zstd", write_page_checksum=True)
    for place in places:
        with contextlib.suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            write_atomically(place / f"{name}-{digest}.parquet", content.getvalue().to_pybytes())
            if place.parent == folder:  # the cache may hold conversions of other folders
                for old in place.glob(f"{name}-*.parquet"):
                    if digest not in old.name:
                        old.unlink(missing_ok=True)
            break
    return found


def _digest(originals: Sequence[Path], name: str, version: int) -> str:
    total = hashlib.sha256(f"{name} {version}".encode())
    for path in originals:
        try:
            with path.open("rb") as stream:
                total.update(f"\n{path.name} {hashlib.file_digest(stream, 'sha256').hexdigest()}".encode())
        except OSError as error:
            raise DataFileError(f"data file {path} cannot be read: {error.strerror}") from None
    return total.hexdigest()[:32]


def _copy(path: Path, digest: str, folder: Path) -> Table | None:
    """Read a conversion; None where there is none, or it is not what it says."""
    try:
        kept = pq.ParquetFile(path, page_checksum_verification=True).read()
        metadata = kept.schema.metadata or {}
        if metadata.get(b"zcbench.digest") != digest.encode():
            return None
        architectures, *columns = kept.columns
        named = zip(kept.column_names[1:], columns, strict=True)
        values = {name: np.array(column.to_numpy(), dtype=np.float64) for name, column in named}
        # The same files may lie elsewhere by now.
        original = folder / Path(metadata[b"zcbench.path"].decode()).name
        return Table(original if original.exists() else folder, tuple(architectures.to_pylist()), values)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None
