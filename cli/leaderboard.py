"""Turn a results folder into tables and one HTML page, or verify such a leaderboard."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import Namespace

from ..errors import ConfigError
from .parser import Parser, add_shared, out_folder, values_of
from .terminal import waiting

if TYPE_CHECKING:
    from ..bench.report.beside import Beside
    from ..bench.results.standing import Standing

#: The file by which a leaderboard and an entry are known.
BOARDS = "boards.json"


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--results",
        default="results",
        help="The results folder, or a leaderboard, which holds its own scores.",
    )
    parser.add_argument(
        "--out", default="leaderboard", help="The folder of the leaderboard, which is written or verified."
    )
    parser.add_argument(
        "--verify", action="store_true", help="Compute every number again from the scores and compare the tables."
    )
    parser.add_argument(
        "--recompute",
        type=int,
        default=0,
        help="The number of networks of the leaderboard that are scored again and compared; 0 for none.",
    )
    parser.add_argument("--seed", type=int, default=0, help="The seed that draws the networks of --recompute.")
    parser.add_argument("--workers", type=int, default=1, help="The number of worker processes of --recompute.")
    parser.add_argument(
        "--entries",
        type=list[str] | str,
        default=[],
        help="Folders that zcbench enter wrote, or a folder of such folders. Their proxies are added.",
    )
    parser.add_argument("--since", help="The folder of a former version of the leaderboard; what changed is shown.")
    parser.add_argument(
        "--searches",
        type=list[str] | str,
        default=[],
        help="Folders that zcbench search wrote. What the searches found is shown on the page.",
    )
    parser.add_argument(
        "--programs",
        type=list[str] | str,
        default=[],
        help="Program files that zcbench evolve wrote, or folders of them. The programs are shown on the page.",
    )
    parser.add_argument(
        "--tracker",
        choices=["wandb", "none"],
        default="none",
        help="The tracker that mirrors the leaderboard, with the scores that it is made from.",
    )
    add_shared(parser, "data")
    parser.add_argument("--json", action="store_true", help="Print the boards, or with --verify the faults, as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """Write or verify a leaderboard."""
    (given,) = parsed
    out = out_folder(given.out)
    if given.recompute < 0:
        raise ConfigError(f"recompute: expected 0 or more, got {given.recompute}")
    if given.recompute:
        return _recompute(given, out)
    with waiting("loading"):
        from ..bench.report.leaderboard import as_records, verify, write

    if given.verify:
        faults = verify(out)
        for line in [json.dumps(faults, indent=1)] if given.json else faults:
            print(line)
        result = f"{len(faults)} faults" if faults else "every number follows from the scores"
        print(f"{out}: {result}", file=sys.stderr)
        return 1 if faults else 0
    entries = _entries(values_of(given, "entries"))
    made = write(Path(given.results), out, entries, _beside(given))
    if given.tracker == "wandb":
        from ..bench.report.tracking import track_leaderboard

        print(track_leaderboard(Path(given.results), out, made), file=sys.stderr)
    if given.json:
        print(json.dumps(as_records(made), indent=1, allow_nan=False))
    else:
        for line in [*map(_summary, made), *_places(made, entries)]:
            print(line)
    if failed := _failed(made, given.results, out):
        print(failed, file=sys.stderr)
    print(f"page: {out / 'index.html'}", file=sys.stderr)
    return 0


def _summary(standing: Standing) -> str:
    """Return a line on a board: how many proxies were scored, which is first, and the baselines beside them."""
    recipe = standing.board.recipe
    taus = {ranking.proxy: ranking.claimed_tau for ranking in reversed(standing.rankings)}
    scored = [name for name in taus if name in {*recipe.versions, *recipe.aggregates}]
    best = next(ranking for ranking in standing.rankings if ranking.proxy in scored)
    tau = best.claimed_tau
    first = f"first is {best.proxy}, tau {tau:.3f}" if math.isfinite(tau) else "none has a tau"
    beside = ", ".join(f"{name} {tau:.3f}" for name, tau in sorted(taus.items()) if name not in scored)
    proxies = "1 proxy" if len(scored) == 1 else f"{len(scored)} proxies"
    return f"{standing.board.name}: {proxies} ranked; {first}" + f" (for comparison: {beside})" * bool(beside)


def _places(made: Sequence[Standing], entries: Sequence[Path]) -> list[str]:
    """Return a line for each proxy of the entries: its rank on every board that has it, and over all boards."""
    from ..bench.results.overview import overview
    from ..bench.results.published.sources import read

    names = dict.fromkeys(name for entry in entries for board, _ in read(entry) for name in board.recipe.versions)
    titles = {standing.board.id: standing for standing in made}
    lines = []
    for each in overview(made) if names else []:
        if each.proxy in names:
            ranks = [
                f"rank {cell.place} of {len(titles[key].rankings)} on {titles[key].board.title}"
                for key, cell in each.cells.items()
            ]
            mean = f"mean rank {each.mean_rank:.2f}" if math.isfinite(each.mean_rank) else "no mean rank"
            lines.append(f"{each.proxy}: {'; '.join([*ranks, mean])}" + f", {each.blank}" * bool(each.blank))
    return lines


def _failed(made: Sequence[Standing], results: str, out: Path) -> str:
    """Return a line on the scores that failed, and the command that shows why; an empty text if none did."""
    from ..bench.scoring.parts import ATTEMPTS

    count = sum(r.failures.get(status, 0) for status in ATTEMPTS for s in made for r in s.rankings)
    if not count:
        return ""
    where = (
        f"the column failures of {out / 'leaderboard.csv'} counts them"
        if (Path(results) / BOARDS).exists()
        else f"zcbench results export scores.csv --results {results} has their messages"
    )
    return f"zcbench: {count:,} scores failed and are not ranked: {where}"


def _entries(named: Sequence[str]) -> list[Path]:
    """Return the folders of entries.

    Raises:
        ConfigError: A folder holds no entry.
    """
    found: list[Path] = []
    for folder in map(Path, named):
        every = sorted(path.parent for path in [*folder.glob(BOARDS), *folder.glob(f"*/{BOARDS}")])
        own = [path for path in every if not (path / "leaderboard.csv").exists()]
        if not own:
            raise ConfigError(f"entries: expected a folder that zcbench enter wrote, got {folder}")
        found += own
    return found


def _beside(given: Namespace) -> Beside:
    """Return what the leaderboard shows beside its scores.

    Raises:
        ZcbenchError: A folder or a file is not what the option expects.
    """
    from ..bench.report.beside import Beside
    from ..bench.results.published.changes import former, has_scores

    searches, programs = values_of(given, "searches"), values_of(given, "programs")
    shown = Beside(former=tuple(former(Path(given.since)))) if given.since else Beside()
    if given.since and not has_scores(Path(given.since)):
        print(f"zcbench: since: {given.since} has no scores, so its table is believed as it is", file=sys.stderr)
    if searches:
        from ..evolution.search.shown import read

        shown = replace(shown, searches=tuple(read(Path(folder)) for folder in searches))
    if programs:
        from ..evolution.study.shown import programs as read_programs

        shown = replace(shown, programs=tuple(read_programs(map(Path, programs))))
    return shown


def _recompute(given: Namespace, out: Path) -> int:
    """Score some networks of a leaderboard again; return 1 if a score regressed, 3 if one is not comparable."""
    with waiting("loading torch"):
        from ..bench.results.published.recompute import recompute
        from ..bench.results.regress import exit_status

    every = []
    for board, count, findings in recompute(
        out, given.recompute, seed=given.seed, workers=given.workers, data=given.data
    ):
        wrong = [finding for finding in findings if finding.outcome != "same"]
        same = len(findings) - len(wrong)
        print(f"{board.title}: {count} networks scored again, {same} of {len(findings)} proxies as published")
        for finding in wrong:
            print(f"{board.title}: {finding.proxy}: {finding.outcome}: {finding.reason}")
        every += findings
    return exit_status(every)
