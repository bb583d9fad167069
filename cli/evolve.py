"""Discover proxies, or aggregates of them, by genetic programming; explain a program, or test it on sealed networks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace

from ..bench.study.config import listed
from ..errors import ConfigError
from ..evolution.study.config import EvolveConfig, check
from .parser import ConfigFile, Parser, settings, values_of
from .terminal import show


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("--config", action=ConfigFile, help="A YAML file or a name from `zcbench list searches`.")
    parser.add_class_arguments(EvolveConfig, as_group=False)
    parser.add_argument(
        "--explain", metavar="PROGRAM", help="Print what a program means instead of searching; its text or its file."
    )
    parser.add_argument(
        "--draws", type=int, default=5000, help="With --explain: the number of random tensors of every shape."
    )
    parser.add_argument("--json", action="store_true", help="Print the programs that were found, with all digits.")
    parser.add_argument(
        "--open",
        type=list[str] | str,
        default=[],
        metavar="FILES",
        help="Rank sealed networks by the programs of these files instead of searching, and record it in the files.",
    )
    parser.add_argument("--figure", help="With --explain: the path of an SVG file to draw.")


def main(parsed: Sequence[Namespace]) -> int:
    """Run the searches one after the other, or explain a program."""
    if parsed[0].explain is not None:
        return _explain(parsed[0])
    if parsed[0].figure is not None:
        raise ConfigError("figure: expected --explain PROGRAM beside it; a search draws its best programs by itself")
    if values_of(parsed[0], "open"):
        return _open(parsed)
    configs = [settings(EvolveConfig, given) for given in parsed]
    for config in configs:
        check(config)  # before torch is loaded, which takes seconds
    from ..evolution.study.search import search

    searches = []
    for config in configs:
        tables, notes = search(config)
        files = sorted(Path(config.out, "programs").glob("*.json"))
        searches.append({"out": config.out, "programs": [json.loads(file.read_text("utf-8")) for file in files]})
        for table in [] if parsed[0].json else tables:
            show(table)
        for note in notes:
            print(note, file=sys.stderr)
    if parsed[0].json:
        from ..bench.report.numbers import null_if_not_finite

        print(json.dumps(null_if_not_finite(searches), indent=1, allow_nan=False))
    return 0


def _open(parsed: Sequence[Namespace]) -> int:
    """Rank sealed networks by programs and print how these compare with known proxies."""
    from ..evolution.study.opening import open_sealed

    if parsed[0].json:
        raise ConfigError("json: expected a search, whose programs it prints, got --open, which writes into its files")
    for given in parsed:
        for table in open_sealed([Path(file) for file in listed(given.open)], settings(EvolveConfig, given)):
            show(table)
    return 0


def _explain(given: Namespace) -> int:
    """Print a program as a tree and its values for layers of several sizes; draw both if a file is named."""
    from ..evolution.study.draw import trees
    from ..evolution.study.explain import as_tree, responses
    from ..evolution.study.found import Found, read
    from ..evolution.study.report import answers

    if given.json:
        raise ConfigError("json: expected a search, whose programs it prints, got --explain: leave one of them out")
    text, figure = given.explain, given.figure and Path(given.figure)
    if re.fullmatch(r"evolved-[0-9a-f]{6}", text):
        raise ConfigError(
            f"explain: expected a program or its file, such as results-evolution/programs/{text}.json, got {text}"
        )
    found = read(Path(text)) if text.endswith(".json") else Found(name="program", program=text, over=given.over)
    program = found.tree()
    if figure is not None and figure.suffix != ".svg":
        raise ConfigError(f"figure: expected a name that ends in .svg, got {figure}")
    # Only statistics are drawn at random: aggregates read scores, and formulas read layer tables.
    values = responses(program, given.draws, to_scalar=found.to_scalar) if found.over == "statistics" else []
    print(as_tree(program))
    if values:
        show(answers(values, given.draws))
    if figure is not None:
        try:
            trees(figure, {"": program}, values)
        except OSError as error:
            raise ConfigError(f"figure: cannot write to {figure} ({error.strerror})") from None
        print(f"figure: {figure}", file=sys.stderr)
    return 0
