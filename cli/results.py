"""Show what a results folder holds, verify all of it, join its parts, or export or import scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from ..errors import ConfigError, ResultsError
from .parser import Parser
from .terminal import show, table


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action", choices=["show", "verify", "compact", "export", "import"], help="What to do with the results folder."
    )
    parser.add_argument(
        "file",
        nargs="?",
        help="With export: the file to write; it ends in .csv, .parquet or .json. With import: a .parquet file of an "
        "export, or the folder of a leaderboard, which holds its scores.",
    )
    parser.add_argument("--results", default="results", help="The results folder.")
    for name, what in (("space", "space"), ("dataset", "data set"), ("proxy", "proxy")):
        parser.add_argument(f"--{name}", help=f"With export: only the rows of this {what}.")
    parser.add_argument(
        "--json", action="store_true", help="With show or verify: print the counts or the faults as JSON."
    )


def main(parsed: Sequence[Namespace]) -> int:
    """Show, verify, join, export or import the scores of a results folder."""
    from ..bench.results import holdings
    from ..bench.scoring.store import Store

    (given,) = parsed
    only = {name: given[name] for name in ("space", "dataset", "proxy") if given[name] is not None}
    if (given.action in {"export", "import"}) != (given.file is not None):
        raise ConfigError(f"results {given.action}: expected a file after `export` or `import`, and only there")
    if only and given.action != "export":
        raise ConfigError(f"results {given.action}: expected no --{next(iter(only))}, which goes with export")
    if given.json and given.action not in {"show", "verify"}:
        raise ConfigError(f"results {given.action}: expected no --json, which goes with show and verify")
    folder = Path(given.results)
    if given.action == "import":
        from ..bench.results.imports import take

        print(f"{folder}: {take(Store(folder), Path(given.file)):,} rows of {given.file}")
        return 0
    if not folder.is_dir():
        raise ResultsError(f"results: {folder} does not exist: start a run with zcbench run --out {folder}")
    if given.action == "verify":
        return _verify(folder, as_json=given.json)
    store = Store(folder)
    if given.action == "compact":
        before, after = holdings.compact(store)
        print(f"{folder}: {before} parts are now {after}")
    elif given.action == "export":
        print(f"{given.file}: {holdings.export(store, Path(given.file), only):,} rows")
    else:
        found = holdings.show(store)
        if given.json:
            print(json.dumps(found, indent=1))
        else:
            _show(found)
    return 0


def _verify(folder: Path, *, as_json: bool) -> int:
    from ..bench.results.holdings import faults
    from ..bench.scoring.store import Store

    found: list[str] = []
    try:
        for fault in faults(Store(folder)):
            found.append(fault)
            if not as_json:
                print(fault)
    except ResultsError as error:  # a manifest that is torn, or a part of the former format
        found.append(str(error))
        if not as_json:
            print(error)
    if as_json:
        print(json.dumps(found, indent=1))
    print(f"{folder}: {len(found)} faults" if found else f"{folder}: every part and record is whole", file=sys.stderr)
    return 1 if found else 0


def _show(found: dict[str, Any]) -> None:
    """Print a table whose second column is broken into lines, so that it fits 80 columns."""
    shown = table("space, data set", "what it holds")
    for held in found["holdings"]:
        lines = [f"{_count(held['parts'], 'part')}, {_size(held['bytes'])}"]
        for machine in held["machines"]:
            failed = ", ".join(f"{count:,} {status}" for status, count in sorted(machine["attempts"].items()))
            lines += [
                f"{machine['device']}, torch {machine['torch']}: {_count(machine['scores'], 'score')}"
                f"{f', attempts: {failed}' if failed else ''}",
                f"  {_count(machine['networks'], 'network')}, {_count(machine['proxies'], 'proxy', 'proxies')}, "
                f"{_count(machine['runs'], 'run')}",
                f"  batch sizes {_some(machine['batch_sizes'])}; seeds {_some(machine['seeds'])}",
            ]
        shown.add_row(f"{held['space']}\n{held['dataset']}", "\n".join(lines))
    show(shown)
    print(
        f"{found['folder']}: {_count(found['runs'], 'run')}, {_count(found['parts'], 'part')}, {_size(found['bytes'])}"
    )


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def _some(numbers: Sequence[int]) -> str:
    """Return the first numbers of a list, and how many there are."""
    shown = " ".join(map(str, numbers[:8]))
    return shown if len(numbers) <= 8 else f"{shown} … ({len(numbers)})"
