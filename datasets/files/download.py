"""Downloads of data files. They resume where they stopped, are verified before use, and overwrite no file."""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from http.client import HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from ...errors import AbsentFileError, DataFileError, one_line
from .checks import SUMS, check, digests, is_page, part_of, recorded
from .registry import Archive, DataFile, Source
from .unpack import unpack

#: A function of the number of bytes that have just arrived and of the expected total.
Progress = Callable[[int, int], None]

_CHUNK = 1 << 18
_TIMEOUT_S = 60.0
#: Limit in bytes for an archive whose size is not stated.
_LARGEST = 1 << 33


def get(
    source: Source, folder: Path, *, progress: Progress | None = None, tell: Callable[[str], None] | None = None
) -> list[Path]:
    """Download the absent files of a source and return the paths of the new files.

    Each file is first written as `NAME.part`; a later call continues that file. When its size and its checksum are the
    official ones, it gets its name. If the owner of an archive states no checksum, the archive's own checksums must
    hold, and the sha256 of every unpacked file is written to `SHA256SUMS` beside it. `tell` is called with each remark
    that a person should read.

    Raises:
        DataFileError: The source has no address, cannot be reached, sends another file, or a different file already
            has the name.
    """
    # The user wants the official file, so a known subset counts as a different file here.
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
    with _faults_named(archive.url, packed), ExitStack() as stack:
        for path, _ in wanted:
            stack.callback(part_of(path).unlink, missing_ok=True)
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
    """Write the checksums of unpacked files to `SHA256SUMS`, so that a later check can compare with them."""
    for folder in {path.parent for path, _ in unpacked}:
        sums = recorded(folder) | {
            path.name: digests(part_of(path))["sha256"] for path, _ in unpacked if path.parent == folder
        }
        part = part_of(folder / SUMS)
        # `sha256sum --check` ignores the first line.
        part.write_text(f"# {origin}\n" + "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)), "utf-8")
        part.replace(folder / SUMS)


def _verify(part: Path, file: DataFile) -> None:
    """Remove a downloaded file if its checksum is not the official one; a file without official checksum stays."""
    algorithm = "sha256" if file.sha256 else "md5"
    expected = file.sha256 or file.md5
    if expected and (found := digests(part)[algorithm]) != expected:
        part.unlink()
        raise DataFileError(f"{file.url or file.path} has {algorithm} {found}, expected {expected}: nothing was kept")


def _fetch(url: str, path: Path, size: int | None, progress: Progress | None) -> Path:
    """Download to `NAME.part`, continue that file if it exists, and return its path."""
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
            return  # the file is already complete
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
        # Bytes are written by position, so two downloads at the same time write the same bytes to the same place.
        with part.open("r+b" if begin else "wb") as stream:
            stream.seek(begin)
            # read1 returns the bytes that have arrived and waits for no more, so they are kept if the server stalls.
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
    """Return the position in the file where an answer begins, and the size of the whole file if it is stated."""
    if answer.status == HTTPStatus.PARTIAL_CONTENT:
        said = re.fullmatch(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)", str(answer.headers.get("Content-Range")))
        return (int(said[1]), None if said[2] == "*" else int(said[2])) if said else (-1, None)
    length = re.fullmatch(r"[0-9]{1,18}", str(answer.headers.get("Content-Length")))
    return 0, int(length[0]) if length else None


def _drop(url: str, part: Path) -> DataFileError:
    part.unlink(missing_ok=True)
    return DataFileError(f"{url} does not go on where {part} ends, which was removed: run the same command again")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects to http and https only, and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Return the redirected request, unless the new address is not allowed."""
        if urlsplit(newurl).scheme not in {"https", urlsplit(req.full_url).scheme}:
            fp.close()
            raise DataFileError(f"{req.full_url} is refused: it leads to {newurl[:200]}, expected an https address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_Redirects)


@contextmanager
def _faults_named(url: str, part: Path) -> Iterator[None]:
    """Turn faults of the network and of the disk into one-line errors with the address or the path."""
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
