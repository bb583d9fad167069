"""Archives: takes the wanted files out of a zip or a tar, and writes only to the paths of these files."""

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
from .checks import part_of
from .registry import DataFile

_CHUNK = 1 << 18
#: Limit for the unpacked size divided by the size of the archive: tables of text reach ten, a zip bomb a thousand.
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
    """One member of an archive; `oddity` says why it is refused and is empty for files and folders."""

    name: str
    size: int
    oddity: str
    open: Callable[[], IO[bytes] | None]


def unpack(
    packed: Path, wanted: Sequence[tuple[Path, DataFile]], *, zipped: bool, complete: bool
) -> list[tuple[Path, DataFile]]:
    """Write each wanted file that the archive has to `NAME.part`, and return these files.

    A file is the member with its path, else the only member with its name. The paths in the archive are never written
    to. Still, an archive is refused if it names a path outside its folder, a link, a device or an encrypted member.
    If `zipped`, it is a zip, else a tar. If `complete`, it must have all wanted files, else one is enough.

    Raises:
        AbsentFileError: Wanted files are not in the archive.
        DataFileError: The archive is torn, no archive, refused, or has a wanted file twice or in another size.
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
    except (*_TORN, OSError) as error:
        # A torn compressed stream raises OSError without a number, a seek to an impossible position EINVAL.
        if isinstance(error, OSError) and error.errno not in {None, errno.EINVAL}:
            raise
        raise DataFileError(f"archive {packed} is torn or no archive ({one_line(str(error))[:100]})") from None


@contextmanager
def _zip(packed: Path) -> Iterator[list[_Member]]:
    with zipfile.ZipFile(packed) as archive:
        members = []
        for info in archive.infolist():
            plain = stat.S_IFMT(info.external_attr >> 16) in {0, stat.S_IFREG, stat.S_IFDIR}
            oddity = "encrypted" if info.flag_bits & 1 else "" if plain else "a link or a device"
            members.append(_Member(info.filename, info.file_size, oddity, partial(archive.open, info)))
        yield members


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
            if total > limit:  # stops before it unpacks all these bytes in search of the next header
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
        raise DataFileError(f"archive {packed}: {member.name[:100]} does not have the stated {member.size:,} bytes")
