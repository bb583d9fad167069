"""Arguments that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace

from ..bench.study.config import listed
from ..plugins import load
from .parser import Parser

PROGRAM = "A program file that `zcbench evolve` has written. It is scored as one more proxy."


def add_data(parser: Parser) -> None:
    """Declare `--data`."""
    parser.add_argument(
        "--data", type=str, help="The data folder; by default ZCBENCH_DATA or the data folder of the user."
    )


def add_include(parser: Parser) -> None:
    """Declare `--include`."""
    text = "Python files that register spaces, data sets or proxies of your own, or programs that evolve has found."
    parser.add_argument("--include", type=list[str] | str, default=[], help=text)


def add_json(parser: Parser, text: str) -> None:
    """Declare `--json`."""
    parser.add_argument("--json", action="store_true", help=text)


def add_program(parser: Parser) -> None:
    """Declare `--program`."""
    parser.add_argument("--program", action="append", default=[], help=PROGRAM)


def include(parsed: Namespace) -> None:
    """Load the files of `--include`."""
    load(listed(parsed.include))


def register_programs(files: Sequence[str]) -> list[str]:
    """Register the programs of `--program` as proxies and return their names."""
    if not files:
        return []
    from ..evolution.study.found import register

    return [register(Path(file)) for file in files]
