"""Turn a results folder into tables and one HTML page, or verify such a leaderboard."""

from __future__ import annotations

import json
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
    parser.add_argument("--json", action="store_true", help="Print the boards, or with --verify the faults, as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """Write or verify a leaderboard."""
    from ..bench.report.leaderboard import as_records, verify, write

    (given,) = parsed
    out = Path(given.out)
    if given.verify:
        faults = verify(out)
        for line in [json.dumps(faults, indent=1)] if given.json else faults:
            print(line)
        result = f"{len(faults)} faults" if faults else "every number follows from the scores"
        print(f"{out}: {result}", file=sys.stderr)
        return 1 if faults else 0
    made = write(Path(given.results), out)
    if given.json:
        print(json.dumps(as_records(made), indent=1, allow_nan=False))
    else:
        for standing in made:
            count, best = len(standing.rankings), standing.rankings[0]
            print(f"{standing.board.name}: {count} proxies, first {best.proxy} ({best.correlation.rho:.3f})")
    print(f"page: {out / 'index.html'}", file=sys.stderr)
    return 0
