"""Downloads data files: resumed where they stopped, verified before they are used, never over a file that is there."""

from __future__ import annotations

import hashlib
import http.client
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import DataFileError, one_line
from .files import Archive, DataFile, Source, check

Progress = Callable[[int], None]

_CHUNK = 1 << 18
_TIMEOUT_S = 60.0
#: Bytes that a file of unstated size may have.
_LARGEST = 1 << 30


def get(source: Source, folder: Path, *, progress: Progress | None = None) -> list[Path]:
    """Download the files of a source that are absent and return the paths of those that are new.

    A file is written beside its place as `NAME.part`, which a later call goes on from, and takes its place when its
    size and checksum are the official ones.

    Args:
        source: What to get.
        folder: The data folder.
        progress: Told the bytes that arrived.

    Raises:
        DataFileError: It has no address, cannot be reached, sends something else, or a file that differs is in the way.
    """
    direct = all(file.url and file.bytes is not None for file in source.files)
    if source.package is not None or not (source.archive or direct):
        raise DataFileError(f"{source.name} cannot be downloaded by zcbench: {source.get}")
    # The official file is what was asked for, so even a known subset is in the way.
    official = replace(source, files=tuple(replace(file, subsets=()) for file in source.files))
    states = check(official, folder, hashed=True)
    for path, state in states:
        if state == "differs":
            raise DataFileError(f"data file {path} is there and differs from the official one: move it away first")
    absent = [(path, file) for (path, state), file in zip(states, source.files, strict=True) if state == "absent"]
    if not absent:
        return []
    if source.archive:
        _unpack(source.archive, absent, folder, progress)
    else:
        for path, file in absent:
            part = _fetch(file.url or "", path, file.bytes or 0, progress)
            _take_place(part, path, file)
    return [path for path, _ in absent]


def _fetch(url: str, path: Path, size: int, progress: Progress | None) -> Path:
    """Download to `NAME.part`, going on from what is there, and return it."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise DataFileError(f"expected an http or https address, got {url}")
    part = path.with_name(f"{path.name}.part")
    with _faults_named(url, part):
        part.parent.mkdir(parents=True, exist_ok=True)
        have = part.stat().st_size if part.exists() else 0
        if have > size:
            part.unlink()
            have = 0
        if have < size:
            _receive(url, part, have, size, progress)
    return part


def _receive(url: str, part: Path, have: int, size: int, progress: Progress | None) -> None:
    headers = {"User-Agent": "zcbench", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumed and not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
            raise DataFileError(f"{url} answers with another part than was asked for: delete {part} and try again")
        written = have if resumed else 0
        if progress:
            progress(written)
        with part.open("ab" if resumed else "wb") as stream:
            while chunk := answer.read(_CHUNK):
                written += len(chunk)
                if written > size:
                    break
                stream.write(chunk)
                if progress:
                    progress(len(chunk))
    if written != size:
        if written > size:
            part.unlink()
        raise DataFileError(
            f"{url} sent {'more than ' if written > size else ''}{min(written, size):,} of {size:,} bytes: "
            f"{'it is another file' if written > size else 'run the same command to go on'}"
        )


@contextmanager
def _faults_named(url: str, part: Path) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        raise DataFileError(f"cannot download {url}: the server says {error.code} {error.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = one_line(str(getattr(error, "reason", error)))[:120]
        kept = f"; what came is kept in {part}" if part.exists() else ""
        raise DataFileError(f"cannot download {url} ({reason}){kept}: run the same command to go on") from None
    except OSError as error:
        raise DataFileError(f"cannot write {part} ({error.strerror}): make room or choose another --data") from None


def _take_place(part: Path, path: Path, file: DataFile) -> None:
    with part.open("rb") as stream:
        algorithm = "sha256" if file.sha256 else "md5"
        found, expected = hashlib.file_digest(stream, algorithm).hexdigest(), file.sha256 or file.md5
    if found != expected:
        part.unlink()
        raise DataFileError(f"{file.url or path.name} has {algorithm} {found}, expected {expected}: nothing was kept")
    part.replace(path)


def _fits(size: int, file: DataFile) -> bool:
    return size <= _LARGEST if file.bytes is None else size == file.bytes


def _unpack(archive: Archive, wanted: list[tuple[Path, DataFile]], folder: Path, progress: Progress | None) -> None:
    """Download an archive and take the wanted files out of it: no other name, no link, no more bytes."""
    packed = _fetch(archive.url, folder / archive.url.rpartition("/")[2], archive.bytes, progress)
    with packed.open("rb") as stream:
        found = hashlib.file_digest(stream, archive.algorithm).hexdigest()
    if found != archive.digest:
        packed.unlink()
        raise DataFileError(
            f"{archive.url} has {archive.algorithm} {found}, expected {archive.digest}: nothing was kept"
        )
    rest = {file.path: (path, file) for path, file in wanted}
    try:
        with tarfile.open(packed, "r:*") as tar:
            for member in tar:
                if member.name not in rest or not member.isreg() or not _fits(member.size, rest[member.name][1]):
                    continue
                path, file = rest.pop(member.name)
                content = tar.extractfile(member)
                assert content is not None
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f"{path.name}.part")
                with part.open("wb") as stream:
                    while chunk := content.read(_CHUNK):
                        stream.write(chunk)
                _take_place(part, path, file)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataFileError(f"cannot unpack {packed} ({one_line(str(error))[:100]}): delete it and try again") from None
    if rest:
        raise DataFileError(f"{archive.url} lacks {', '.join(rest)}, as regular files of the expected size")
    packed.unlink()
