"""Compare one proxy with others: by how much it ranks better, with an interval and a p-value, in one line a pair."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import Namespace

from ..bench.study.config import listed
from ..errors import ConfigError, ResultsError, few
from ..plugins import load
from .parser import Parser, add_shared, values_of
from .terminal import show, waiting

if TYPE_CHECKING:
    from ..bench.results.board import Board

#: The rivals without a name: what every proxy has to beat.
RIVALS = ("params", "macs")


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("proxy", help="The name of a proxy or aggregate that `zcbench run` has scored.")
    parser.add_argument(
        "--with",
        type=list[str] | str,
        default=[],
        help="The names of others to compare it with; by default params and macs, which need no score.",
    )
    parser.add_argument("--results", default="results", help="The results folder, or the folder of a leaderboard.")
    kind = list[str] | str
    parser.add_argument("--space", type=kind, default=[], help="Only boards of these benchmark spaces; by default all.")
    parser.add_argument("--dataset", type=kind, default=[], help="Only boards of these data sets; by default all.")
    parser.add_argument(
        "--unseen",
        action="store_true",
        help="Leave out the networks that the program files of --include have seen: those of the pool, and those "
        "that chose between programs.",
    )
    parser.add_argument("--figure", help="The path of an SVG file to draw.")
    add_shared(parser, "include")
    parser.add_argument("--json", action="store_true", help="Print every field as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """Print one table for each board that has all of the proxies, and of several boards one of the lowest tau."""
    with waiting("reading results"):
        from ..bench.report.rivals import as_records, as_table, draw, lowest_table
        from ..bench.results.rivals import against, boards_on, lowest

    (given,) = parsed
    figure = given.figure and Path(given.figure)
    if figure and (figure.suffix != ".svg" or not figure.absolute().parent.is_dir()):
        raise ConfigError(f"figure: expected a name that ends in .svg, in a folder that exists, got {figure}")
    folder = Path(given.results)
    if folder.is_file():
        raise ResultsError(f"results: expected the folder of results or of a leaderboard, got the file {folder}")
    if not folder.is_dir():
        raise ResultsError(f"results: {folder} does not exist: start a run with zcbench run --out {folder}")
    load(listed(given.include))
    others = values_of(given, "with") or [name for name in RIVALS if name != given.proxy]
    asked = boards_on(folder, spaces=values_of(given, "space"), datasets=values_of(given, "dataset"))
    if given.unseen:
        asked = _unseen(asked, [Path(file) for file in listed(given.include)], [given.proxy, *others])
    found = against(folder, given.proxy, others, asked)
    if left := len(asked) - len(found):
        print(f"left out: {left} of {len(asked)} boards, which lack one of these proxies", file=sys.stderr)
    if figure:
        figure.write_text(draw(found), "utf-8")
        print(f"figure: {figure}", file=sys.stderr)
    least = lowest(found)
    if len(found) > 1 and not least:
        print("no lowest tau over the boards: a proxy has several batch sizes, or a board is a census", file=sys.stderr)
    if given.json:
        print(json.dumps(as_records(found, least), indent=1, allow_nan=False))
    else:
        tables = [as_table(each) for each in found] + ([lowest_table(least, len(found))] if least else [])
        for place, table in enumerate(tables):
            if place:
                print()
            show(table)
    return 0


def _unseen(boards: Sequence[Board], files: Sequence[Path], names: Sequence[str]) -> list[Board]:
    """Return the boards without what the programs among some files have seen, and say how many networks are left."""
    from ..bench.results.standing import BASELINES
    from ..bench.stats.top import FEWEST
    from ..datasets import data_folder
    from ..evolution.data.seen import unseen
    from ..evolution.study.found import read
    from ..proxies import AGGREGATES, PROXIES

    programs = [read(file) for file in files if file.suffix == ".json"]
    if not programs:
        raise ConfigError(
            "unseen: expected the files of programs in --include, which say what they have seen, got none"
        )
    if unknown := [name for name in names if name not in {*PROXIES, *AGGREGATES, *BASELINES}]:
        raise ConfigError(f"unseen: nothing says what {few(unknown, 3)} has seen: name its file with --include")
    kept = []
    for board in boards:
        left = unseen(board, programs, data_folder(None))
        count = len(left.recipe.accuracies)
        dropped = "" if count >= FEWEST else f": left out, as fewer than {FEWEST}"
        print(f"{board.name}: {count} of {len(board.recipe.accuracies)} networks are unseen{dropped}", file=sys.stderr)
        kept += [left] if count >= FEWEST else []
    if not kept:
        raise ConfigError(
            f"unseen: no board has {FEWEST} or more networks that {few([p.name for p in programs], 3)} have not seen: "
            "score others, such as those of zcbench run --sample_seed 1"
        )
    return kept
