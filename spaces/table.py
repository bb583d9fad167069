"""Tables of networks and their accuracies: read from text, checked, and converted to Parquet if they are large."""

from __future__ import annotations

import contextlib
import csv
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..atomic import write_atomically
from ..errors import DataFileError, in_words, one_line

T = TypeVar("T")

#: Bounds of an accuracy in percent: above 0, because even a network that guesses is sometimes right, and up to 100.
PERCENT = (0.0, 100.0)


@dataclass(frozen=True)
class Table:
    """The networks of the file at `path`, in the order of the file. A value is NaN if the file lacks it."""

    path: Path
    architectures: tuple[str, ...]
    columns: Mapping[str, NDArray[np.float64]]


@contextmanager
def reading(path: Path, form: str) -> Iterator[None]:
    """Turn faults of a data file into a `DataFileError`: it cannot be read, is torn, or is not in the format `form`."""
    try:
        yield
    except OSError as error:
        raise DataFileError(f"data file {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError, csv.Error) as error:
        raise DataFileError(
            f"data file {path} is torn or not {form} ({one_line(str(error))[:100]}): get it again"
        ) from None


@contextmanager
def entry(path: Path, where: str, expected: str) -> Iterator[None]:
    """Turn faults of one entry of a data file into a `DataFileError`; `where` is its position (", record 3")."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataFileError(f"data file {path}{where}: expected {expected} ({in_words(error, 250)})") from None


def read_csv(
    path: Path, needed: Collection[str], read: Callable[[Mapping[str, str]], T], header: Collection[str] | None = None
) -> Iterator[T]:
    """Yield the result of `read` for each row of a table of text with the `needed` columns.

    If `read` fails, the error names the line. If the file has no header, `header` is the names of its columns.

    Raises:
        DataFileError: The file cannot be read, is no table, lacks a column, or `read` fails on a row.
    """
    with reading(path, "a table of text"), path.open(newline="", encoding="utf-8") as stream:
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
            except (LookupError, TypeError, ValueError) as error:
                raise DataFileError(
                    f"data file {path}, line {rows.line_num}: {in_words(error, 250)}; the file is torn: get it again"
                ) from None


def number(text: str, bounds: tuple[float, float] = PERCENT) -> float:
    """Read an accuracy that lies above the first bound and is at most the second.

    Raises:
        ValueError: The text is no number, or the number is out of bounds.
    """
    value = float(text)
    low, high = bounds
    if not low < value <= high:
        raise ValueError(f"expected an accuracy above {low:g} and up to {high:g}, got {text}")
    return value


def by_index(path: Path, rows: Iterable[tuple[int, float]], size: int) -> NDArray[np.float64]:
    """Return accuracies in the order of the index.

    Raises:
        DataFileError: An index is missing or occurs twice.
    """
    values = np.full(size, np.nan)
    for index, accuracy in rows:
        if not np.isnan(values[index]):
            raise DataFileError(f"data file {path}: network {index} occurs twice")
        values[index] = accuracy
    if missing := int(np.isnan(values).sum()):
        raise DataFileError(
            f"data file {path}: {missing} of {size} networks are missing; the file is torn: get it again"
        )
    return values


def read_column(
    path: Path,
    architecture: str,
    accuracy: str,
    index: Callable[[str], int],
    size: int,
    bounds: tuple[float, float] = PERCENT,
) -> NDArray[np.float64]:
    """Return the column `accuracy` of a table of text, in the order of the index of the column `architecture`.

    The table has one row for each of the `size` networks of a space. The bounds are those of `number`.
    """
    rows = read_csv(
        path, (architecture, accuracy), lambda row: (index(row[architecture]), number(row[accuracy], bounds))
    )
    return by_index(path, rows, size)


def table(
    path: Path, names: Collection[str], rows: Iterable[tuple[str, Collection[float]]], *, repeated: bool = False
) -> Table:
    """Make a table from rows, each the text of a network and its accuracies in the order of `names`.

    Raises:
        DataFileError: There are no networks, or a network occurs twice. If `repeated`, its first row counts instead.
    """
    found: dict[str, tuple[float, ...]] = {}
    for architecture, accuracies in rows:
        if architecture in found:
            if repeated:
                continue
            raise DataFileError(f"data file {path}: {architecture[:80]} occurs twice")
        found[architecture] = tuple(accuracies)
    if not found:
        raise DataFileError(f"data file {path} lists no networks: get it again")
    values = np.asarray(list(found.values()), dtype=np.float64).reshape(len(found), len(names))
    return Table(path, tuple(found), {name: values[:, i].copy() for i, name in enumerate(names)})


def converted(
    originals: Sequence[Path], name: str, version: int, read: Callable[[], Table], *, beside: bool = True
) -> Table:
    """Read a large table once and keep it as Parquet. Later calls read this copy, which takes milliseconds.

    The copy lies in `.zcbench/` beside the originals, or in the user's cache if that folder cannot be written or is not
    the user's own (`beside` is False), as that of an installed package. Its
    file name has a hash of the originals' bytes and of the reader's version, so it never stands for other files. A torn
    copy is made again. Older copies of the same name are removed. All originals lie in one folder.

    Raises:
        DataFileError: An original cannot be read, or `read` fails.
    """
    digest = _digest(originals, name, version)
    folder = originals[0].parent
    places = [platformdirs.user_cache_path("zcbench") / "tables"]
    # The mode decides, because root could write to a read-only folder too.
    if beside and folder.stat().st_mode & 0o222:
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
            if place.parent == folder:  # in the cache, the older copies may belong to other folders
                for old in place.glob(f"{name}-*.parquet"):
                    if digest not in old.name:
                        old.unlink(missing_ok=True)
            break
    return found


def _digest(originals: Sequence[Path], name: str, version: int) -> str:
    total = hashlib.sha256(f"{name} {version}".encode())
    for path in originals:
        with reading(path, "readable"), path.open("rb") as stream:
            total.update(f"\n{path.name} {hashlib.file_digest(stream, 'sha256').hexdigest()}".encode())
    return total.hexdigest()[:32]


def _copy(path: Path, digest: str, folder: Path) -> Table | None:
    """Read a copy. Return None if it does not exist, is torn, or has another digest."""
    try:
        kept = pq.ParquetFile(path, page_checksum_verification=True).read()
        metadata = kept.schema.metadata or {}
        if metadata.get(b"zcbench.digest") != digest.encode():
            return None
        architectures, *names = kept.column_names
        values = {name: np.array(kept[name].to_numpy(), dtype=np.float64) for name in names}
        # The originals may have been moved since the copy was made.
        original = folder / Path(metadata[b"zcbench.path"].decode()).name
        return Table(original if original.exists() else folder, tuple(kept[architectures].to_pylist()), values)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None
