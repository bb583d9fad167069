"""The data files zcbench knows: where they are looked for, where they come from, whether they are the right ones."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import Literal

import platformdirs

from ..errors import AbsentFileError, DataFileError
from ..registry import Registry

VARIABLE = "ZCBENCH_DATA"

State = Literal["present", "absent", "differs"]


@dataclass(frozen=True)
class Subset:
    """A known file that holds a part of the official one, in the same layout.

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
        sha256: Of the official file; None where its owner states the md5 alone.
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
    """A tar archive whose members are the files of a source, under their own paths.

    Attributes:
        url: Where it can be downloaded.
        digest: Of the official archive.
        algorithm: Of the digest.
        bytes: Its size.
    """

    url: str
    digest: str
    algorithm: Literal["sha256", "md5"]
    bytes: int


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
    """

    name: str
    what: str
    licence: str
    files: tuple[DataFile, ...]
    get: str
    package: str | None = None
    archive: Archive | None = None


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


def check(
    source: Source, folder: Path, *, hashed: bool, progress: Callable[[int], None] | None = None
) -> list[tuple[Path, State]]:
    """Compare every file of a source with its size and, if `hashed`, its checksum; `progress` is told the bytes read.

    A file that differs is still read by whoever asks for its images: the hash of the batch tells the results apart.
    """
    try:
        paths = locate(source, folder)
    except DataFileError:
        return [(Path(f"{source.package}/{file.path}"), "absent") for file in source.files]
    return [(path, _state(path, file, hashed, progress)) for path, file in zip(paths, source.files, strict=True)]


def _state(path: Path, file: DataFile, hashed: bool, progress: Callable[[int], None] | None) -> State:
    if not path.is_file():
        return "absent"
    size = path.stat().st_size
    accepted = {subset.sha256 for subset in file.subsets if subset.bytes == size}
    if file.bytes in {None, size}:
        accepted |= {digest for digest in (file.sha256 or file.md5,) if digest}
    if not accepted:
        return "differs"
    if not hashed:
        return "present"
    digests = [hashlib.sha256()]
    if not file.sha256:
        digests.append(hashlib.md5(usedforsecurity=False))
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            for digest in digests:
                digest.update(chunk)
            if progress:
                progress(len(chunk))
    return "present" if accepted & {digest.hexdigest() for digest in digests} else "differs"


def _root(source: Source, folder: Path) -> Path:
    if source.package is None:
        return folder
    spec = importlib.util.find_spec(source.package)  # finds the folder without running the package
    if spec is None or not spec.submodule_search_locations:
        raise AbsentFileError(f"package {source.package}, which carries {source.what}, is not installed: {source.get}")
    return Path(spec.submodule_search_locations[0])
