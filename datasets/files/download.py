"""Downloads data files: resumed where they stopped, verified before they are used, never over a file that is there."""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from http.client import HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from ...errors import AbsentFileError, DataFileError, one_line
from .registry import SUMS, Archive, DataFile, Source, check, digests, is_page, part_of, recorded
from .unpack import unpack

#: Told the bytes that arrived, and of how many altogether.
Progress = Callable[[int, int], None]

_CHUNK = 1 << 18
_TIMEOUT_S = 60.0
#: Bytes that an archive of unstated size may have.
_LARGEST = 1 << 33


def get(
    source: Source, folder: Path, *, progress: Progress | None = None, tell: Callable[[str], None] | None = None
) -> list[Path]:
    """Download the files of a source that are absent and return the paths of those that are new.

    A file is written beside its place as `NAME.part`, which a later call goes on from, and takes its place when its
    size and checksum are the official ones. Where the owner of an archive states no checksum, its members have to be
    whole by their own checksums, and the sha256 of all that came is kept beside them in `SHA256SUMS`.

    Args:
        source: What to get.
        folder: The data folder.
        progress: Told the bytes that arrived, and of how many.
        tell: Told what a person should know of what came.

    Raises:
        DataFileError: It has no address, cannot be reached, sends something else, or a file that differs is in the way.
    """
    # The official file is what was asked for, so even a known subset is in the way.
    official = replace(source, files=tuple(replace(file, subsets=()) for file in source.files))
    found = check(official, folder, hashed=True)
    absent = [(each.path, file) for each, file in zip(found, source.files, strict=True) if each.state == "absent"]
    direct = all(file.url and file.bytes is not None for file in source.files)
    if absent and (source.package is not None or not (source.archive or direct)):
        raise DataFileError(f"{source.name} cannot be downloaded by zcbench: {source.get}; {absent[0][0]} is absent")
    for each in found:
        if each.state == "differs":
            raise DataFileError(f"data file {each.path} is there, but {each.fault}: move it away first")
    if source.archive and absent:
        return _get_archive(source.archive, absent, folder, progress, tell)
    total = sum(file.bytes or 0 for _, file in absent)
    for path, file in absent:
        part = _fetch(file.url or "", path, file.bytes, progress and partial(_told, progress, total))
        with _faults_named(file.url or "", part):
            _verify(part, file)
            part.replace(path)
    return [path for path, _ in absent]


def _told(progress: Progress, total: int, more: int, _: int) -> None:
    progress(more, total)


def _get_archive(
    archive: Archive,
    wanted: Sequence[tuple[Path, DataFile]],
    folder: Path,
    progress: Progress | None,
    tell: Callable[[str], None] | None,
) -> list[Path]:
    packed = _fetch(archive.url, folder / archive.name, archive.bytes, progress)
    with _faults_named(archive.url, packed), _parts_removed(wanted):
        size, found = packed.stat().st_size, digests(packed)[archive.algorithm]
        if archive.digest and found != archive.digest:
            packed.unlink()
            raise DataFileError(
                f"{archive.url} has {archive.algorithm} {found}, expected {archive.digest}: nothing was kept"
            )
        try:
            unpacked = unpack(packed, wanted, zipped=archive.name.endswith(".zip"), complete=bool(archive.digest))
        except AbsentFileError:
            raise
        except DataFileError as error:
            packed.unlink()
            raise DataFileError(f"{error}: nothing of {archive.url} was kept") from None
        for path, file in unpacked:
            _verify(part_of(path), file)
        if not archive.digest:
            _record(unpacked, f"{archive.url} {archive.algorithm} {found} {size} bytes")
        for path, _ in unpacked:
            part_of(path).replace(path)
        packed.unlink()
    if tell and not archive.digest:
        tell(
            f"the owner of {archive.url} states no checksum of it: its members are whole by their own checksums; "
            f"what came, {size:,} bytes of {archive.algorithm} {found}, stands in {SUMS} beside them"
        )
    lacking = [file.path for path, file in wanted if (path, file) not in unpacked]
    if tell and lacking:
        tell(f"{archive.url} lacks {', '.join(lacking)}")
    return [path for path, _ in unpacked]


def _record(unpacked: Sequence[tuple[Path, DataFile]], origin: str) -> None:
    """Write down what came, so that a later check can tell whether it is still the same."""
    for folder in {path.parent for path, _ in unpacked}:
        sums = recorded(folder) | {
            path.name: digests(part_of(path))["sha256"] for path, _ in unpacked if path.parent == folder
        }
        part = part_of(folder / SUMS)
        # `sha256sum --check` passes over the first line.
        part.write_text(f"# {origin}\n" + "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)), "utf-8")
        part.replace(folder / SUMS)


def _verify(part: Path, file: DataFile) -> None:
    """Remove what arrived where it is not the official file; no digest known is no difference."""
    algorithm = "sha256" if file.sha256 else "md5"
    expected = file.sha256 or file.md5
    if not expected:
        return
    found = digests(part)[algorithm]
    if found != expected:
        part.unlink()
        raise DataFileError(f"{file.url or file.path} has {algorithm} {found}, expected {expected}: nothing was kept")


@contextmanager
def _parts_removed(wanted: Sequence[tuple[Path, DataFile]]) -> Iterator[None]:
    """Leave nothing half unpacked behind."""
    try:
        yield
    finally:
        for path, _ in wanted:
            part_of(path).unlink(missing_ok=True)


def _fetch(url: str, path: Path, size: int | None, progress: Progress | None) -> Path:
    """Download to `NAME.part`, going on from what is there, and return it."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise DataFileError(f"expected an http or https address, got {url}")
    part = part_of(path)
    with _faults_named(url, part):
        part.parent.mkdir(parents=True, exist_ok=True)
        have = part.stat().st_size if part.exists() else 0
        if size is not None and have > size:
            part.unlink()
            have = 0
        if have != size:
            _receive(url, part, have, size, progress)
    return part


def _receive(url: str, part: Path, have: int, size: int | None, progress: Progress | None) -> None:
    headers = {"User-Agent": "zcbench", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        answer = _OPENER.open(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        error.close()
        if size is None and error.headers.get("Content-Range") == f"bytes */{have}":
            return  # all of it is there
        raise _drop(url, part) from None
    with answer:
        begin, announced = _span(answer)
        if begin not in {0, have} or (begin != have and answer.status == HTTPStatus.PARTIAL_CONTENT):
            raise _drop(url, part)
        total = announced if size is None else size
        page = answer.headers.get_content_type() == "text/html"
        if page or total is None or announced not in {None, total} or (size is None and total > _LARGEST):
            offered = "of unknown size" if announced is None else f"of {announced:,} bytes"
            expected = f"up to {_LARGEST:,}" if size is None else f"{size:,}"
            kind = "an HTML page" if page else "a file"
            raise DataFileError(f"{url} offers {kind} {offered}, expected {expected}: it is another file")
        written = begin
        if progress:
            progress(written, total)
        # Written by position: two that download at the same time write the same bytes to the same place.
        with part.open("r+b" if begin else "wb") as stream:
            stream.seek(begin)
            # What has come is written before more is waited for, so that a server that stalls costs none of it.
            while (announced is None or written < total) and (chunk := answer.read1(_CHUNK)):
                written += len(chunk)
                if written > total:
                    break
                stream.write(chunk)
                if progress:
                    progress(len(chunk), total)
    if written > total:
        part.unlink()
        raise DataFileError(f"{url} sent more than {total:,} bytes: it is another file")
    if written < total and is_page(part):
        part.unlink()
        raise DataFileError(f"{url} sent an HTML page of {written:,} bytes, expected {total:,}: it is another file")
    if written < total:
        raise DataFileError(f"{url} sent {written:,} of {total:,} bytes: run the same command to go on")


def _span(answer: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Return where in the file an answer begins, and how many bytes the whole file has where that is said."""
    if answer.status == HTTPStatus.PARTIAL_CONTENT:
        said = re.fullmatch(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)", str(answer.headers.get("Content-Range")))
        return (int(said[1]), None if said[2] == "*" else int(said[2])) if said else (-1, None)
    length = re.fullmatch(r"[0-9]{1,18}", str(answer.headers.get("Content-Length")))
    return 0, int(length[0]) if length else None


def _drop(url: str, part: Path) -> DataFileError:
    part.unlink(missing_ok=True)
    return DataFileError(f"{url} does not go on where {part} ends, which was removed: run the same command again")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows the web alone, and never from https to anything less."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request that follows, unless it is refused."""
        if urlsplit(newurl).scheme not in {"https", urlsplit(req.full_url).scheme}:
            fp.close()
            raise DataFileError(f"{req.full_url} is refused: it leads to {newurl[:200]}, expected an https address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_Redirects)


@contextmanager
def _faults_named(url: str, part: Path) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        reason = one_line(str(error.reason))[:120]
        raise DataFileError(f"cannot download {url}: the server says {error.code} {reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        reason = one_line(str(getattr(error, "reason", error)))[:120]
        kept = f"; what came is kept in {part}" if part.exists() else ""
        raise DataFileError(f"cannot download {url} ({reason}){kept}: run the same command to go on") from None
    except OSError as error:
        raise DataFileError(f"cannot write {part} ({error.strerror}): make room or choose another --data") from None
