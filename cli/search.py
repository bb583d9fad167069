"""Search a space for its best network, with and without proxies, by trained accuracies that are in a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from ..bench.study.config import listed
from ..evolution.search.config import SearchConfig
from .parser import ConfigFile, Parser, add_shared, settings
from .run import register_programs
from .terminal import show, waiting


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("--config", action=ConfigFile, help="A YAML file or a name from `zcbench list searches`.")
    parser.add_class_arguments(SearchConfig, as_group=False)
    add_shared(parser, "program")
    parser.add_argument("--json", action="store_true", help="Print the tables that the search has written as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """Run the searches one after the other; return 4 if scores failed, which another run tries again."""
    with waiting("loading torch, accuracies and images"):
        from ..evolution.search.search import search

    lacking, found = 0, []
    for given in parsed:
        names = register_programs(listed(given.program))
        config = settings(SearchConfig, given)
        if names:
            include = [*listed(config.include), *listed(given.program)]
            config = settings(SearchConfig, given, include=include, proxy=[*listed(config.proxy), *names])
        tables, notes, failed = search(config)
        lacking += failed
        if given.json:
            files = sorted(Path(config.out).glob("*.csv"))
            found.append({"out": config.out, "tables": {file.stem: records_of(file) for file in files}})
        for table in [] if given.json else tables:
            show(table)
        for note in notes:
            print(note, file=sys.stderr)
        if failed:
            print(f"zcbench: {failed} scores failed, and the search went on without them", file=sys.stderr)
    if parsed[0].json:
        print(json.dumps(found, indent=1, allow_nan=False))
    return 4 if lacking else 0


def records_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table as plain values; what is no finite number is None."""
    import pandas as pd

    from ..bench.report.numbers import null_if_not_finite

    rows: list[dict[str, Any]] = null_if_not_finite(pd.read_csv(path).to_dict("records"))
    return rows
