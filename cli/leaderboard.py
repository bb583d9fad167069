"""Turn a results folder into tables and one HTML page, or verify such a leaderboard."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace

from .parser import Parser


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("--results", default="results", help="The results folder.")
    parser.add_argument(
        "--out", default="leaderboard", help="The folder of the leaderboard, which is written or verified."
    )
    parser.add_argument(
        "--verify", action="store_true", help="Compute every number again from the scores and compare the tables."
    )


def main(parsed: Sequence[Namespace]) -> int:
    """Write or verify a leaderboard."""
    from ..bench.report.leaderboard import verify, write

    (given,) = parsed
    out = Path(given.out)
    if given.verify:
        faults = verify(out)
        for fault in faults:
            print(fault)
        result = f"{len(faults)} faults" if faults else "every number follows from the scores"
        print(f"{out}: {result}", file=sys.stderr)
        return 1 if faults else 0
    for standing in write(Path(given.results), out):
        count, best = len(standing.rankings), standing.rankings[0]
        print(f"{standing.board.name}: {count} proxies, first {best.proxy} ({best.correlation.rho:.3f})")
    print(f"page: {out / 'index.html'}", file=sys.stderr)
    return 0
