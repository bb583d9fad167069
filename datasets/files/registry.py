"""The data files zcbench knows: where they are looked for, where they come from, whether they are the right ones."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import Literal

import platformdirs

from ...errors import AbsentFileError, DataFileError
from ...registry import Registry

VARIABLE = "ZCBENCH_DATA"
#: Lies beside files whose owner states no checksum: the ones they had when they arrived, in the form of `sha256sum`.
SUMS = "SHA256SUMS"

State = Literal["present", "absent", "differs", "unverified"]

_CHUNK = 1 << 20
#: Of a file, enough to tell a page from data.
_HEAD = 512
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Subset:
    """A known file that holds a part of what is official: of the file, in the same layout, or of a release's figures.

    Attributes:
        sha256: Of the file.
        bytes: Its size.
    """

    sha256: str
    bytes: int


@dataclass(frozen=True)
class DataFile:
    """One file.

    Attributes:
        path: Relative to the data folder, or to the package that carries it.
        sha256: Of the official file; None where its owner states the md5 alone, or nothing.
        bytes: Its size; None where its owner does not state it.
        md5: Of the official file where there is no sha256.
        url: Where it can be downloaded, pinned to a version.
        subsets: Files that are accepted in its place; they are never downloaded.
    """

    path: str
    sha256: str | None
    bytes: int | None
    url: str | None = None
    md5: str | None = None
    subsets: tuple[Subset, ...] = ()


@dataclass(frozen=True)
class Archive:
    """A zip or tar archive whose members are the files of a source, under their own paths or at least names.

    Attributes:
        url: Where it can be downloaded; `.zip` at its end, or it is a tar.
        digest: Of the official archive; None where its owner states none, and then it is a zip, which has checksums of
            its own members.
        algorithm: Of the digest.
        bytes: Its size; None where its owner does not state it.
    """

    url: str
    digest: str | None = None
    algorithm: Literal["sha256", "md5"] = "sha256"
    bytes: int | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Records:
    """The files of a release that are too many to list, one per network.

    Attributes:
        pattern: Of their paths, relative to the data folder.
        count: How many there are.
    """

    pattern: str
    count: int


@dataclass(frozen=True)
class Source:
    """Files that belong together.

    Attributes:
        name: What `zcbench data` calls them.
        what: One line on their content.
        licence: As its owner states it.
        files: The files.
        get: How a person gets them.
        package: The installed package that carries them; None where they lie in the data folder.
        archive: What they are packed in where they are downloaded.
        records: What belongs to them besides, and is not downloaded by zcbench.
    """

    name: str
    what: str
    licence: str
    files: tuple[DataFile, ...]
    get: str
    package: str | None = None
    archive: Archive | None = None
    records: Records | None = None


@dataclass(frozen=True)
class Found:
    """What was found in the place of a file.

    Attributes:
        path: Where it is, or should be.
        state: Unverified where nothing is known that its bytes could be compared with.
        fault: What came and what was expected, where it differs; why, where it is unverified.
    """

    path: Path
    state: State
    fault: str = ""


@dataclass(frozen=True)
class Status:
    """What there is of a source.

    Attributes:
        state: The worst of its files; partial where some are absent or half downloaded, or records are.
        note: How much of it there is, where it is partial.
    """

    state: Literal["present", "partial", "absent", "differs", "unverified"]
    note: str = ""


@functools.cache
def sources() -> Registry[Source]:
    """Return the registry of sources, read from `files.json`."""
    registry: Registry[Source] = Registry("data source")
    document = json.loads((package_files(__package__) / "files.json").read_text("utf-8"))
    for entry in document["sources"]:
        for file in entry["files"]:
            file["subsets"] = tuple(Subset(**subset) for subset in file.get("subsets", ()))
        entry["files"] = tuple(DataFile(**file) for file in entry["files"])
        if "archive" in entry:
            entry["archive"] = Archive(**entry["archive"])
        if "records" in entry:
            entry["records"] = Records(**entry["records"])
        registry.add(entry["name"], Source(**entry))
    return registry


def data_folder(given: Path | str | None = None) -> Path:
    """Return the data folder: the one given, else `ZCBENCH_DATA`, else the user's data directory."""
    chosen = given or os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("zcbench")


def locate(source: Source, folder: Path) -> list[Path]:
    """Return where every file of a source should be.

    Raises:
        DataFileError: The package that carries them is not installed.
    """
    return [_root(source, folder) / file.path for file in source.files]


def find(name: str, folder: Path, file: str | None = None) -> Path:
    """Return the path of a source's file (by default its first), which exists.

    Raises:
        DataFileError: It is absent; the message says how to get it.
    """
    source = sources()[name]
    path = _root(source, folder) / (file or source.files[0].path)
    if not path.is_file():
        elsewhere = f", or set {VARIABLE} to a folder that has it" if source.package is None else ""
        raise AbsentFileError(f"data file {path} is absent: {source.get}{elsewhere}")
    return path


def check(source: Source, folder: Path, *, hashed: bool, progress: Callable[[int], None] | None = None) -> list[Found]:
    """Compare every file of a source with its size and, if `hashed`, its checksum; `progress` is told the bytes read.

    A file that differs is still read by whoever asks for its images: the hash of the batch tells the results apart.
    """
    try:
        paths = locate(source, folder)
    except DataFileError:
        return [Found(Path(f"{source.package}/{file.path}"), "absent") for file in source.files]
    return [_compare(path, file, hashed, progress) for path, file in zip(paths, source.files, strict=True)]


def status(source: Source, folder: Path, found: Sequence[Found]) -> Status:
    """Sum up what `check` found, and look for records and for downloads that were broken off."""
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
    """Return how many records there are that no checksum is known of."""
    return len(_records(source, folder) - set(locate(source, folder))) if source.records else 0


def recorded(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file that a folder's `SHA256SUMS` names; what is no such line is passed over."""
    path = folder / SUMS
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", errors="replace") as stream:
        text = stream.read(_CHUNK)
    return {line[2]: line[1] for line in re.finditer(r"^([0-9a-f]{64}) [ *](.+)$", text, re.MULTILINE)}


def part_of(path: Path) -> Path:
    """Return where a file lies while it is not whole."""
    return path.with_name(f"{path.name}.part")


def is_page(path: Path) -> bool:
    """Tell whether a file is an HTML page, as servers send it in the place of data."""
    with path.open("rb") as stream:
        return bool(_HTML.match(stream.read(_HEAD)))


def _root(source: Source, folder: Path) -> Path:
    if source.package is None:
        return folder
    spec = importlib.util.find_spec(source.package)  # finds the folder without running the package
    if spec is None or not spec.submodule_search_locations:
        raise AbsentFileError(f"package {source.package}, which carries {source.what}, is not installed: {source.get}")
    return Path(spec.submodule_search_locations[0])


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
    """Say what shows at a glance that a file is another one; an empty text where nothing does."""
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
    """Compare the digests of a file with the official one, those of known subsets, or what it had when it arrived."""
    size = path.stat().st_size
    sums = digests(path, progress)
    subsets = {subset.sha256 for subset in file.subsets if subset.bytes == size}
    algorithm = "md5" if file.md5 else "sha256"
    where = ""
    official = file.sha256 or file.md5
    if not official:
        official = recorded(path.parent).get(path.name)
        where = f", as {SUMS} has it from the download"
    if sums["sha256"] in subsets or (sums[algorithm] == official and file.bytes in {None, size}):
        return Found(path, "present")
    if official:
        return Found(path, "differs", f"it has {algorithm} {sums[algorithm]}, expected {official}{where}")
    return Found(path, "unverified", f"no checksum of it is published; it has sha256 {sums['sha256']}")


def digests(path: Path, progress: Callable[[int], None] | None = None) -> dict[str, str]:
    """Return the sha256 and the md5 of a file, read once; `progress` is told the bytes read."""
    sums = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            for each in sums.values():
                each.update(chunk)
            if progress:
                progress(len(chunk))
    return {name: each.hexdigest() for name, each in sums.items()}


def _records(source: Source, folder: Path) -> set[Path]:
    return set(folder.glob(source.records.pattern)) if source.records else set()


def _parts(source: Source, folder: Path, found: Sequence[Found]) -> list[str]:
    """Name what is left of downloads that were broken off."""
    expected = zip(found, source.files, strict=True)
    sizes = {part_of(each.path): file.bytes for each, file in expected if each.state == "absent"}
    if source.archive:
        sizes = {part_of(folder / source.archive.name): source.archive.bytes}
    return [
        f"{part.name} with {part.stat().st_size:,}{f' of {size:,}' if size is not None else ''} bytes"
        for part, size in sizes.items()
        if part.is_file()
    ]
