"""The registry of data files: what zcbench can read, where it looks for the files, and where they come from."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import Literal

import platformdirs

from ...errors import AbsentFileError
from ...registry import Registry

#: The environment variable that holds the data folder.
VARIABLE = "ZCBENCH_DATA"


@dataclass(frozen=True)
class Subset:
    """A known file with a part of the official content, which is accepted in place of the official file."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class DataFile:
    """One file of a source.

    Attributes:
        path: Path relative to the data folder, or to the package that contains the file.
        sha256: Checksum of the official file; None if its owner states only an md5, or no checksum.
        bytes: Size of the official file; None if its owner does not state it.
        url: Address of the file, pinned to a version.
        md5: Checksum of the official file if there is no sha256.
        subsets: Files that are accepted in place of the official one; zcbench never downloads them.
    """

    path: str
    sha256: str | None
    bytes: int | None
    url: str | None = None
    md5: str | None = None
    subsets: tuple[Subset, ...] = ()


@dataclass(frozen=True)
class Archive:
    """A zip or tar archive whose members are the files of a source. A member has the path of the file, or its name.

    Attributes:
        url: Address of the archive; a zip ends in `.zip`, any other ending is a tar.
        digest: Checksum of the archive; None if its owner states none. Such an archive must be a zip, because a zip
            has checksums of its members.
        algorithm: Algorithm of the checksum.
        bytes: Size of the archive; None if its owner does not state it.
    """

    url: str
    digest: str | None = None
    algorithm: Literal["sha256", "md5"] = "sha256"
    bytes: int | None = None

    @property
    def name(self) -> str:
        """The file name of the archive."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Records:
    """The files of a release with one file per network, which are too many to list.

    Attributes:
        pattern: Glob pattern of the paths, relative to the data folder.
        count: Number of files in the whole release.
    """

    pattern: str
    count: int


@dataclass(frozen=True)
class Source:
    """Files that belong together.

    Attributes:
        name: Name of the source in the commands of `zcbench data`.
        what: One line that describes the content.
        licence: Licence as the owner states it.
        get: Instruction for a person who wants the files.
        package: Installed package that contains the files; None if they lie in the data folder.
        archive: Archive from which the files are downloaded.
        records: Further files of the source, which zcbench does not download.
    """

    name: str
    what: str
    licence: str
    files: tuple[DataFile, ...]
    get: str
    package: str | None = None
    archive: Archive | None = None
    records: Records | None = None


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
    """Return the data folder: the given one, else the value of `ZCBENCH_DATA`, else the user's data directory."""
    chosen = given or os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("zcbench")


def locate(source: Source, folder: Path) -> list[Path]:
    """Return the path where each file of a source should be.

    Raises:
        DataFileError: The package that contains the files is not installed.
    """
    return [_root(source, folder) / file.path for file in source.files]


def find(name: str, folder: Path, file: str | None = None) -> Path:
    """Return the path of an existing file of a source, by default of its first file.

    Raises:
        DataFileError: The file is absent; the message says how to get it.
    """
    source = sources()[name]
    path = _root(source, folder) / (file or source.files[0].path)
    if not path.is_file():
        elsewhere = f", or set {VARIABLE} to a folder that has it" if source.package is None else ""
        raise AbsentFileError(f"data file {path} is absent: {source.get}{elsewhere}", name)
    return path


def how_to_get(names: Iterable[str]) -> str:
    """Return in one line how to get the files of some sources: the commands, and the names of what no command gets."""
    commands, by_hand = _ways(names)
    hand = [f"by hand {', '.join(by_hand)}, as zcbench data list says"] if by_hand else []
    return f"set {VARIABLE} to a folder that has the files, or get them: {'; '.join([*commands, *hand])}"


def effort(names: Iterable[str]) -> tuple[int, int]:
    """Return how many sources no command gets, and how many commands get the others: tuples compare as efforts do."""
    commands, by_hand = _ways(names)
    return len(by_hand), len(commands)


def _ways(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the commands that get sources, and the names of those that no command gets."""
    ways = {name: sources()[name].get.partition(" (")[0] for name in names}
    by_hand = [name for name, way in ways.items() if not way.startswith("zcbench data get ")]
    return [way for name, way in ways.items() if name not in by_hand], by_hand


def _root(source: Source, folder: Path) -> Path:
    if source.package is None:
        return folder
    # This finds the folder of the package and runs none of its code.
    spec = importlib.util.find_spec(source.package)
    if spec is None or not spec.submodule_search_locations:
        raise AbsentFileError(
            f"package {source.package}, which contains {source.what}, is not installed: {source.get}", source.name
        )
    return Path(spec.submodule_search_locations[0])
