"""Search a space for its best network, with and without proxies, by trained accuracies that are in a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

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


def main(parsed: Sequence[Namespace]) -> int:
    """Run the searches one after the other; return 4 if scores failed, which another run tries again."""
    with waiting("loading torch, accuracies and images"):
        from ..evolution.search.search import search

    lacking = 0
    for given in parsed:
        names = register_programs(listed(given.program))
        config = settings(SearchConfig, given)
        if names:
            include = [*listed(config.include), *listed(given.program)]
            config = settings(SearchConfig, given, include=include, proxy=[*listed(config.proxy), *names])
        tables, notes, failed = search(config)
        lacking += failed
        for table in tables:
            show(table)
        for note in notes:
            print(note, file=sys.stderr)
        if failed:
            print(f"zcbench: {failed} scores failed, and the search went on without them", file=sys.stderr)
    return 4 if lacking else 0
