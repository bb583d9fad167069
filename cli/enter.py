"""Score the networks of a published leaderboard by a proxy of your own, and write an entry for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from ..bench.study.config import StudyConfig, listed
from ..errors import AbsentFileError, ConfigError
from .parser import Parser, add_shared, out_folder, values_of
from .proxy_file import registered
from .run import register_programs, report_failures
from .terminal import show, table, waiting

if TYPE_CHECKING:
    from ..bench.results.board import Board
    from ..bench.results.ranking import Ranking
    from ..bench.results.standing import Standing
    from ..bench.stats.places import Place
    from ..bench.study.resolve import Study

#: Number of networks on which the proxy is checked before the boards are scored.
CHECKED = 5
#: Number of runs that try a network which gives no score.
TRIES = StudyConfig.tries


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", nargs="?", default="", help="A Python file that registers one proxy or several.")
    add_shared(parser, "program")
    parser.add_argument("--to", default="docs/board", help="The folder of the leaderboard.")
    parser.add_argument(
        "--boards",
        type=list[str] | str,
        default=[],
        help="Boards by name, such as nb201-cifar10; by default all boards whose data files are at hand.",
    )
    parser.add_argument("--results", default="results-entry", help="The results folder of the scores.")
    parser.add_argument("--out", default="", help="The folder of the entry; by default entry-NAME.")
    parser.add_argument("--workers", type=int, default=1, help="The number of worker processes.")
    add_shared(parser, "data")
    parser.add_argument("--json", action="store_true", help="Print the places and all coefficients as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """Check the proxies of a file, score the networks of the boards, and write the entry; return 4 if scores failed."""
    with waiting("loading torch"):
        from ..bench.report.numbers import estimate, milliseconds, null_if_not_finite
        from ..bench.results.published.entry import chosen, enter, write

    (given,) = parsed
    files = [*([given.file] if given.file else []), *listed(given.program)]
    if not files:
        raise ConfigError("file: expected a Python file that registers a proxy, or --program, got none")
    _check_folders(given)
    boards = chosen(Path(given.to), values_of(given, "boards"))
    names = [*(registered(given.file) if given.file else []), *register_programs(listed(given.program))]
    with waiting("looking for data files"):
        ready = _ready(given, boards, names, files)
    if _faults(ready[0][1], names):
        return 1
    shown = table("board", "proxy", "rank", "τ [95 %]", "ms", title=f"entry of {', '.join(names)}")
    records: list[dict[str, Any]] = []
    failed = 0
    for board, study in ready:
        standing, rows = enter(Path(given.to), board, study)
        failed += report_failures(rows, TRIES)
        for ranking, place in _own(standing, names):
            records.append({"board": board.title, "place": place and vars(place)} | ranking.flat())
            c = ranking.correlation
            shown.add_row(
                board.title,
                ranking.proxy,
                f"{place or 'none'} of {len(standing.rankings)}",
                estimate(ranking.claimed_tau, c.tau_low, c.tau_high) or "-",
                milliseconds(ranking.ms),
            )
    out = Path(given.out or f"entry-{names[0]}")
    write(out, Path(given.results), files)
    if given.json:
        print(json.dumps(null_if_not_finite(records), indent=1, allow_nan=False))
    else:
        show(shown)
    print(f"entry: {out}", file=sys.stderr)
    print(f"zcbench: the board with it: zcbench leaderboard --results {given.to} --entries {out}", file=sys.stderr)
    return 4 if failed else 0


def _check_folders(given: Namespace) -> None:
    """Refuse folders that are files, and a folder of the entry that holds a leaderboard, which it would replace."""
    out = out_folder(given.out or ".")
    if given.out and (out.resolve() == Path(given.to).resolve() or (out / "leaderboard.csv").exists()):
        raise ConfigError(f"out: expected a folder of its own for the entry, got {out}, which holds a leaderboard")
    if (results := Path(given.results)).exists() and not results.is_dir():
        raise ConfigError(f"results: expected a folder, got {results}, which is a file")


def _ready(
    given: Namespace, boards: Sequence[Board], names: Sequence[str], files: Sequence[str]
) -> list[tuple[Board, Study]]:
    """Return the boards whose data files are at hand, each with the study that scores it; nothing is scored yet.

    Raises:
        ConfigError: There are none.
        ZcbenchError: A file of a board that is asked for by name is absent, or a file is faulty.
    """
    from ..bench.study.resolve import absent_sources, resolve_recipe
    from ..datasets.files.registry import effort, how_to_get

    ready: list[tuple[Board, Study]] = []
    absent: list[tuple[str, tuple[str, ...]]] = []
    for board in boards:
        own = {"include": list(files), "workers": given.workers, "data": given.data, "name": board.title}
        try:
            ready.append((board, resolve_recipe(board.recipe, names, out=given.results, **own)))
        except AbsentFileError:
            absent.append((board.title, absent_sources(board.recipe, given.data)))
    if not absent:
        return ready
    if not (ready or given.boards):  # one board is enough to begin with
        absent = [min(absent, key=lambda each: effort(each[1]))]
    lines = [f"{title.rpartition(' v')[0] or title} lacks {', '.join(names)}" for title, names in absent]
    get = how_to_get(dict.fromkeys(name for _, names in absent for name in names))
    if given.boards or not ready:
        which = "" if given.boards else f"none of the {len(boards)} boards has them; the easiest to get: "
        raise ConfigError(f"boards: expected data files at hand, but {which}{'; '.join(lines)}: {get}")
    for line in [f"{len(lines)} of {len(boards)} boards are left out:", *lines, get]:
        print(f"zcbench: {line}", file=sys.stderr)
    return ready


def _own(standing: Standing, names: Sequence[str]) -> list[tuple[Ranking, Place | None]]:
    pairs = zip(standing.rankings, standing.places, strict=True)
    return [(ranking, place) for ranking, place in pairs if ranking.proxy in names]


def _faults(study: Study, names: Sequence[str]) -> int:
    """Check the proxies on a few networks of a board, print their faults, and return how many there are."""
    import functools

    import torch

    from ..proxies import PROXIES
    from ..proxies.checks import check

    torch.set_num_threads(1)
    (_, seed), batch = next(iter(study.batches.items()))
    x = batch.x.contiguous(memory_format=study.space.memory_format)
    texts = study.recipe.architectures[:CHECKED]
    networks = [functools.partial(study.space.build, text, study.images.task, seed) for text in texts]
    faults = 0
    for name in names:
        with waiting(f"checking {name} on {len(networks)} networks"):
            report = check(PROXIES[name], networks, x, batch.y, seed=seed)
        faults += len(report.faults)
        for finding in report.findings:
            if finding.fault:
                print(f"zcbench: {name}: {finding.check}: {finding.fault}", file=sys.stderr)
    return faults
