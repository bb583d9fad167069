"""List data files, say where they are looked for, download them, or compare them with their checksums."""

from __future__ import annotations

import dataclasses
import json
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from ..errors import ConfigError
from .parser import Parser, add_shared
from .terminal import width

#: What stands before the lines of a source.
INDENT = "    "


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=["list", "where", "get", "verify"], help="What to do with the data files.")
    parser.add_argument("name", nargs="?", help="With get: the name of a source from `zcbench data list`.")
    add_shared(parser, "data")
    parser.add_argument("--json", action="store_true", help="Print every file as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """List, download or verify data files."""
    from ..datasets.files.registry import data_folder

    (given,) = parsed
    folder = data_folder(given.data)
    if (given.action == "get") != (given.name is not None):
        raise ConfigError(f"data {given.action}: expected a name after `get`, and only there; see `data list`")
    if given.action == "get":
        if given.json:
            raise ConfigError("data get: expected no --json, which goes with list, where and verify")
        return _download(given.name, folder)
    records = _checked(folder, hashed=given.action == "verify")
    wrong = any(file["state"] == "differs" for record in records for file in record["files"])
    if given.json:
        print(json.dumps({"folder": str(folder), "sources": records}, indent=1))
    elif given.action == "where":
        print(_head(folder, given.data))
        for record in records:
            print(f"{record['name']:<18} {record['state']:<10} {_place(Path(record['files'][0]['path']), folder)}")
    else:
        _show(records, _head(folder, given.data), folder, given.action == "verify")
    if wrong and not given.json:
        print("move away what differs and get it again: `zcbench data list` then says how")
    return 1 if wrong else 0


def _head(folder: Path, named: str | None) -> str:
    """Return the data folder, and why it is this one."""
    from ..datasets.files.registry import VARIABLE

    why = "--data names it" if named else f"{VARIABLE} {'is set' if os.environ.get(VARIABLE) else 'is not set'}"
    if not folder.is_dir():
        why += "; it is a file" if folder.exists() else "; there is no such folder"
    return f"{folder}  ({why})"


def _place(path: Path, folder: Path) -> Path:
    """Return a path within the data folder as seen from there, and any other one as it is."""
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _show(records: Sequence[dict[str, Any]], head: str, folder: Path, verified: bool) -> None:
    """Print a paragraph for every source, and a line for every file that is not as its checksum says."""
    wrapped = textwrap.TextWrapper(
        width(), initial_indent=INDENT, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
    )
    print(head)
    for record in records:
        print(f"\n{record['name']}: {record['state']}")
        get = record["get"] if record["state"] not in {"present", "unverified"} else ""
        lines = (record["what"], f"licence: {record['licence']}", record["note"], get and f"to get it: {get}")
        print("\n".join(wrapped.fill(line) for line in lines if line))
    for file in (file for record in records for file in record["files"]):
        if file["fault"]:
            print(f"{file['path']} {'differs' if file['state'] == 'differs' else 'is unverified'}: {file['fault']}")
    for record in records:
        if verified and record["unlisted"]:
            print(f"{record['name']}: {record['unlisted']:,} records are unverified: no checksum is published")


def _checked(folder: Path, *, hashed: bool) -> list[dict[str, Any]]:
    """Return the sources and the states of their files, as `--json` prints them."""
    from ..datasets.files.checks import check, status, unlisted
    from ..datasets.files.registry import sources
    from ..progress import Progress

    found = {name: check(source, folder, hashed=False) for name, source in sources().items()}
    if hashed:
        sizes = [each.path.stat().st_size for every in found.values() for each in every if each.state == "present"]
        with Progress("bytes checked", sum(sizes)) as progress:
            for name, source in sources().items():
                found[name] = check(source, folder, hashed=True, progress=progress.advance)
    return [
        {
            "name": name,
            **dataclasses.asdict(status(source, folder, found[name])),
            "licence": source.licence,
            "what": source.what,
            "get": source.get,
            "files": [dataclasses.asdict(each) | {"path": str(each.path)} for each in found[name]],
            "unlisted": unlisted(source, folder),
        }
        for name, source in sources().items()
    ]


def _download(name: str, folder: Path) -> int:
    from ..datasets.files.checks import check, status
    from ..datasets.files.download import get
    from ..datasets.files.registry import sources
    from ..progress import Progress

    source = sources()[name]
    started: list[Progress] = []

    def advance(more: int, total: int) -> None:  # a source that cannot be downloaded, or need not be, shows no bar
        if not started:
            started.append(Progress(f"bytes of {name}", total))
        started[0].advance(more)

    notes: list[str] = []
    try:
        new = get(source, folder, progress=advance, tell=notes.append)
    finally:
        for progress in started:
            progress.close()
    for line in [*new, *notes]:
        print(line)
    if not new:
        print(f"{name} is there already")
    now = status(source, folder, check(source, folder, hashed=False))
    if now.state == "partial":
        print(f"{name} is partial: {now.note}; {source.get}")
    return 0
