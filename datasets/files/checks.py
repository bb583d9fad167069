"""Checks of data files on disk: whether each file exists, is whole, and is the official one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import DataFileError
from .registry import DataFile, Source, locate

#: Name of the file that keeps the checksums of downloads whose owner states none, in the format of `sha256sum`.
SUMS = "SHA256SUMS"

#: State of a file; `unverified` means that no checksum is known that its bytes could be compared with.
State = Literal["present", "absent", "differs", "unverified"]

_CHUNK = 1 << 20
#: Bytes at the beginning of a file that show whether it is an HTML page.
_HEAD = 512
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Found:
    """The result of the check of one file; `fault` says how it differs, or why it is unverified."""

    path: Path
    state: State
    fault: str = ""


@dataclass(frozen=True)
class Status:
    """The worst state of a source's files. If some files or records are absent, it is `partial`, with a note."""

    state: Literal["present", "partial", "absent", "differs", "unverified"]
    note: str = ""


def check(source: Source, folder: Path, *, hashed: bool, progress: Callable[[int], None] | None = None) -> list[Found]:
    """Compare every file of a source with the official size and, if `hashed`, with the official checksum.

    A data module still reads a file that differs, because the hash of the probe batch tells the results apart.
    `progress` is called with the number of bytes of each read.
    """
    try:
        paths = locate(source, folder)
    except DataFileError:
        return [Found(Path(f"{source.package}/{file.path}"), "absent") for file in source.files]
    return [_compare(path, file, hashed, progress) for path, file in zip(paths, source.files, strict=True)]


def status(source: Source, folder: Path, found: Sequence[Found]) -> Status:
    """Summarise the results of `check`; look for records and for interrupted downloads too."""
    states = {each.state for each in found}
    if "differs" in states:
        return Status("differs")
    there = [each for each in found if each.state != "absent"]
    records = len(_records(source, folder))
    notes = [f"{len(there)} of {len(found)} files"] if 0 < len(there) < len(found) else []
    if source.records and records < source.records.count and (there or records):
        notes.append(f"{records:,} of {source.records.count:,} records")
    if "absent" in states:
        notes += _parts(source, folder, found)
    if notes:
        return Status("partial", ", ".join(notes))
    return Status("absent" if not there else "unverified" if "unverified" in states else "present")


def unlisted(source: Source, folder: Path) -> int:
    """Return the number of records whose checksum is not known."""
    return len(_records(source, folder) - set(locate(source, folder))) if source.records else 0


def recorded(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file that the `SHA256SUMS` of a folder names; other lines of it are ignored."""
    path = folder / SUMS
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", errors="replace") as stream:
        text = stream.read(_CHUNK)
    return {line[2]: line[1] for line in re.finditer(r"^([0-9a-f]{64}) [ *](.+)$", text, re.MULTILINE)}


def part_of(path: Path) -> Path:
    """Return the path that a file has while it is not complete: `NAME.part`."""
    return path.with_name(f"{path.name}.part")


def is_page(path: Path) -> bool:
    """Tell whether a file is an HTML page, which servers send in place of data."""
    with path.open("rb") as stream:
        return bool(_HTML.match(stream.read(_HEAD)))


def digests(path: Path, progress: Callable[[int], None] | None = None) -> dict[str, str]:
    """Return the sha256 and the md5 of a file, which is read once; `progress` is called with the bytes of each read."""
    sums = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            for each in sums.values():
                each.update(chunk)
            if progress:
                progress(len(chunk))
    return {name: each.hexdigest() for name, each in sums.items()}


def _compare(path: Path, file: DataFile, hashed: bool, progress: Callable[[int], None] | None) -> Found:
    if path.is_dir():
        return Found(path, "differs", "it is a folder, expected a file")
    if not path.is_file():
        return Found(path, "absent")
    try:
        fault = _misfit(path, file)
        if fault or not hashed:
            return Found(path, "differs" if fault else "present", fault)
        return _verify(path, file, progress)
    except OSError as error:
        return Found(path, "differs", f"it cannot be read ({error.strerror})")


def _misfit(path: Path, file: DataFile) -> str:
    """Describe a difference that size and beginning of a file show; the text is empty if they show none."""
    size = path.stat().st_size
    expected = f"{file.bytes:,} bytes" if file.bytes is not None else "data"
    if is_page(path):
        return f"it is an HTML page of {size:,} bytes, expected {expected}"
    if file.bytes is None:
        return "" if size else "it is empty"
    if size in {file.bytes, *(subset.bytes for subset in file.subsets)}:
        return ""
    return f"it is truncated: {size:,} of {expected}" if size < file.bytes else f"it has {size:,} bytes, not {expected}"


def _verify(path: Path, file: DataFile, progress: Callable[[int], None] | None) -> Found:
    """Compare the checksum of a file with the official one, those of known subsets, or that of its download."""
    size = path.stat().st_size
    sums = digests(path, progress)
    subsets = {subset.sha256 for subset in file.subsets if subset.bytes == size}
    algorithm = "md5" if file.md5 else "sha256"
    stated = file.sha256 or file.md5
    official = stated or recorded(path.parent).get(path.name)
    where = "" if stated else f", as {SUMS} has it from the download"
    if sums["sha256"] in subsets or (sums[algorithm] == official and file.bytes in {None, size}):
        return Found(path, "present")
    if official:
        return Found(path, "differs", f"it has {algorithm} {sums[algorithm]}, expected {official}{where}")
    return Found(path, "unverified", f"no checksum of it is published; it has sha256 {sums['sha256']}")


def _records(source: Source, folder: Path) -> set[Path]:
    return set(folder.glob(source.records.pattern)) if source.records else set()


def _parts(source: Source, folder: Path, found: Sequence[Found]) -> list[str]:
    """Describe the files that interrupted downloads have left."""
    expected = zip(found, source.files, strict=True)
    sizes = {part_of(each.path): file.bytes for each, file in expected if each.state == "absent"}
    if source.archive:
        sizes = {part_of(folder / source.archive.name): source.archive.bytes}
    return [
        f"{part.name} with {part.stat().st_size:,}{f' of {size:,}' if size is not None else ''} bytes"
        for part, size in sizes.items()
        if part.is_file()
    ]
