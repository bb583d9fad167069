"""Takes files out of archives: those that were asked for, to where they belong, whatever else an archive says."""

from __future__ import annotations

import errno
import lzma
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from ...errors import AbsentFileError, DataFileError, one_line
from .registry import DataFile, part_of

_CHUNK = 1 << 18
#: Times the size of an archive that its content may have; tables of text come to ten, a bomb to a thousand.
_RATIO = 100
_TORN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ArithmeticError,
    LookupError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True)
class _Member:
    """What an archive says of one of its members; `oddity` is empty for files and folders."""

    name: str
    size: int
    oddity: str
    open: Callable[[], IO[bytes] | None]


def unpack(
    packed: Path, wanted: Sequence[tuple[Path, DataFile]], *, zipped: bool, complete: bool
) -> list[tuple[Path, DataFile]]:
    """Write the wanted files of an archive beside their places, as `NAME.part`, and return those that it has.

    A file is the member of its own path, else the only member of its name. No path of the archive is ever written to;
    still an archive that names a path outside its folder, a link, a device or a member under a password is refused.

    Args:
        packed: The archive.
        wanted: Where the files belong, and what they are.
        zipped: It is a zip; otherwise a tar, compressed or not.
        complete: All files have to be there, and not just one.

    Raises:
        AbsentFileError: Files are not there.
        DataFileError: The archive is torn or none, hostile, or has a file of another size or twice.
        OSError: A file cannot be written.
    """
    try:
        with (_zip if zipped else _tar)(packed) as members:
            _refuse_hostile(packed, members)
            chosen = [(_choose(packed, members, file), path, file) for path, file in wanted]
            found = [(path, file) for member, path, file in chosen if member]
            if not found or (complete and len(found) < len(wanted)):
                lacking = ", ".join(file.path for member, _, file in chosen if not member)
                names = ", ".join(member.name for member in members[:5])
                raise AbsentFileError(f"archive {packed} lacks {lacking[:200]}; it has {names[:200] or 'nothing'}")
            for member, path, _ in chosen:
                if member:
                    _write(packed, member, path)
            return found
    except _TORN as error:
        raise _torn(packed, error) from None
    except OSError as error:
        # The readers of compressed streams raise it without a number, and so does a seek to nowhere with one.
        if error.errno in {None, errno.EINVAL}:
            raise _torn(packed, error) from None
        raise


def _torn(packed: Path, error: Exception) -> DataFileError:
    return DataFileError(f"archive {packed} is torn or none ({one_line(str(error))[:100]})")


@contextmanager
def _zip(packed: Path) -> Iterator[list[_Member]]:
    with zipfile.ZipFile(packed) as archive:
        yield [
            _Member(info.filename, info.file_size, _oddity_of_zip(info), partial(archive.open, info))
            for info in archive.infolist()
        ]


def _oddity_of_zip(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & 1:
        return "under a password"
    kind = stat.S_IFMT(info.external_attr >> 16)
    return "" if kind in {0, stat.S_IFREG, stat.S_IFDIR} else "a link or a device"


@contextmanager
def _tar(packed: Path) -> Iterator[list[_Member]]:
    limit, total = _RATIO * packed.stat().st_size, 0
    with tarfile.open(packed, "r:*") as archive:
        members = []
        for info in archive:
            plain = info.isdir() or (info.isreg() and not info.issparse())
            oddity = "" if plain else "a link or a device"
            members.append(_Member(info.name, info.size, oddity, partial(archive.extractfile, info)))
            total += info.size
            if total > limit:  # before the next header is looked for, behind all these bytes
                break
        yield members


def _refuse_hostile(packed: Path, members: Sequence[_Member]) -> None:
    for member in members:
        outside = ".." in member.name.split("/") or re.match(r"/|[A-Za-z]:|.*\\", member.name, re.DOTALL)
        oddity = "a path outside the folder" if outside else member.oddity
        if oddity:
            raise DataFileError(f"archive {packed} is refused: its member {member.name[:100]} is {oddity}")
    total, size = sum(member.size for member in members), packed.stat().st_size
    if total > _RATIO * size:
        raise DataFileError(f"archive {packed} is refused: its {size:,} bytes would unpack to {total:,} or more")


def _choose(packed: Path, members: Sequence[_Member], file: DataFile) -> _Member | None:
    name = file.path.rpartition("/")[2]
    same = [member for member in members if member.name == file.path]
    same = same or [member for member in members if member.name.rpartition("/")[2] == name]
    if not same:
        return None
    if len(same) > 1:
        raise DataFileError(f"archive {packed} is refused: it has {len(same)} members that could be {file.path}")
    if file.bytes not in {None, same[0].size}:
        raise DataFileError(f"archive {packed}: {file.path} has {same[0].size:,} bytes, expected {file.bytes:,}")
    return same[0]


def _write(packed: Path, member: _Member, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    content = member.open()
    if content is None:
        raise DataFileError(f"archive {packed}: {member.name[:100]} is a folder, expected a file")
    with content, part_of(path).open("wb") as stream:
        while chunk := content.read(_CHUNK):
            written += len(chunk)
            if written > member.size:
                break
            stream.write(chunk)
    if written != member.size:
        raise DataFileError(f"archive {packed}: {member.name[:100]} has other than its {member.size:,} bytes")
