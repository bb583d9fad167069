"""The folder of a leaderboard: rankings of the boards of a results folder, and the scores that they are made from."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...atomic import write_atomically
from ...engine import Workers
from ...errors import ResultsError
from ...progress import Progress
from ..results.ablation import ablate, drawn_by_seed
from ..results.overview import Leaderboard, overview
from ..results.pairs import across
from ..results.panel import union
from ..results.published.sources import BOARDS, SCORES, Source, read, read_leaderboard, with_entries, write_scores
from ..results.standing import Standing, stand
from . import beside as besides
from . import figures
from .ablation import as_markdown as ablation_as_markdown
from .beside import BESIDE, NOTHING, Beside
from .numbers import null_if_not_finite
from .page import page
from .table import as_csv, as_markdown, changes_as_markdown

#: Fewer scores than this are ranked in this process: others take longer to start.
_MANY = 20_000
_FIGURES = "figures"
#: Tables that the folder may have; a table without rows is not written.
_TABLES = (
    "overview.csv",
    "leaderboard.csv",
    "curves.csv",
    "differences.csv",
    "agreement.csv",
    "transfer.csv",
    "ablation.csv",
    "seeds.csv",
    "trends.csv",
    "changes.csv",
    "searches.csv",
    "programs.csv",
)
#: Significant digits of numbers in tables that are long; all others have all digits.
_DIGITS = {"curves.csv": 6, "differences.csv": 6, "agreement.csv": 6}
_ABOUT = """# Leaderboard

A row is a proxy on a board: networks of a space that were ranked by the score, and by the accuracy of their training.
In brackets are 95 % intervals. `index.html` beside this file is the page, with the overview of all boards and ranks.

An arrow ↓ marks a proxy that claims that lower scores are better. Coefficients are those of the scores as they are. So
a negative one of such a proxy is as it claims, and counts as positive for its place. A coefficient is blank where fewer
than ten networks have a score, or where all have the same. Published are coefficients of others, with their source.

"""
_TEXTS = ("leaderboard.md", "ablation.md", "index.html", BESIDE)
#: What else belongs into the folder: the sources, drawings, and what a maintainer keeps: former versions, entries.
_BELONGS = (SCORES, BOARDS, _FIGURES, "earlier", "entries")


def write(results: Path, out: Path, entries: Sequence[Path] = (), beside: Beside = NOTHING) -> list[Standing]:
    """Rank the boards of a results folder, and write tables, a page, figures, and the scores behind them.

    `results` may be a leaderboard too, which holds its scores. The proxies of entries are added to its boards, and what
    it shows beside its scores is kept where `beside` has nothing.

    Always written: `index.html`, `leaderboard.md`, `overview.csv`, `leaderboard.csv`, `curves.csv`, `differences.csv`
    and `agreement.csv`. Written where boards share networks: `transfer.csv`. Written where a study has several seeds or
    batch sizes: `ablation.csv`, `ablation.md`, `seeds.csv` and `trends.csv`. Written for what stands beside the scores:
    `beside.json`, `changes.csv`, `searches.csv` and `programs.csv`. Written if matplotlib is installed: `figures/`.
    `verify` makes the tables again from `scores.parquet` and `boards.json`. Equal scores give equal bytes.
    Files of an earlier call that this call does not write are removed.

    Raises:
        ResultsError: Scores are missing, or a folder cannot be read or written.
    """
    sources = with_entries(read(results), entries)
    beside = beside.over(besides.read(results))
    made = _rank(sources)
    with _drawing() as progress:
        texts = _tables(made, beside)
        progress.advance(1)
        texts |= _documents(made, beside, progress, drawn=figures.available())
    try:
        (out / _FIGURES if any(name.startswith(_FIGURES) for name in texts) else out).mkdir(parents=True, exist_ok=True)
        write_scores(out, sources)
        for name, text in texts.items():
            write_atomically(out / name, text.encode())
        for path in _left_over(out, texts):
            path.unlink()
    except OSError as error:
        raise ResultsError(f"out: cannot write to {out} ({error.strerror}): choose another folder") from None
    return list(made.standings)


def as_records(standings: Sequence[Standing]) -> list[dict[str, Any]]:
    """Return plain values of some boards and their rankings; a number that is not finite is None."""
    records: list[dict[str, Any]] = null_if_not_finite(
        [
            s.board.identity() | {"name": s.board.name, "rankings": [ranking.flat() for ranking in s.rankings]}
            for s in standings
        ]
    )
    return records


def _drawing() -> Progress:
    return Progress("tables, figures and the page", 3)


def _documents(made: Leaderboard, beside: Beside, progress: Progress, *, drawn: bool) -> dict[str, str]:
    """Return what is no table: the page, Markdown, figures, and what stands beside the scores, by name."""
    drawings = figures.draw(made) if drawn else {}
    progress.advance(1)
    rankings = _ABOUT + as_markdown([r for s in made.standings for r in s.rankings])
    texts = {
        "leaderboard.md": rankings + changes_as_markdown(beside.changes(made.standings)),
        "index.html": page(made, drawings, beside),
        **{f"{_FIGURES}/{d.name}.svg": d.svg for own in drawings.values() for d in own},
    }
    if made.ablations:
        texts["ablation.md"] = ablation_as_markdown(made.ablations, drawings, _FIGURES)
    if beside != NOTHING:
        texts[BESIDE] = json.dumps(beside.document(), allow_nan=False) + "\n"
    progress.advance(1)
    return texts


def verify(folder: Path) -> list[str]:
    """Make a leaderboard again from its scores, and return every fault as one line.

    A fault is a cell that differs, a file that is missing or too much, a page, document or figure with other bytes, a
    coefficient, share or count out of its bounds, or a number of parameters or MACs that differs from what the space
    states. Nothing is made from the messages of scores, so they are not verified.

    Raises:
        ResultsError: The folder has no leaderboard, or a file of it is torn.
    """
    sources = read_leaderboard(folder)
    written = {name: (folder / name).read_text("utf-8") for name in _TABLES if (folder / name).exists()}
    rows = pd.concat([rows for _, rows in sources], ignore_index=True)
    beside = besides.read(folder)
    made = _rank(sources)
    faults: list[str] = []
    with _drawing() as progress:
        expected = _tables(made, beside)
        progress.advance(1)
        differing = list(_differing(folder, made, beside, progress))
    for name in _TABLES:
        if name in written and name in expected:
            faults += _differences(name, written[name], expected[name])
        elif name in written:
            faults.append(f"{name} exists, but the scores give no such table")
        elif name in expected:
            faults.append(f"{name} is missing, but the scores give such a table")
    faults += differing
    faults += _foreign(folder)
    return [*faults, *(fault for s in made.standings for fault in _out_of_bounds(s, rows))]


def _rank(sources: Sequence[Source]) -> Leaderboard:
    found = [board for board, _ in sources]
    sizes = [len(rows) for _, rows in sources]
    largest_first = sorted(range(len(sources)), key=lambda place: -sizes[place])
    count = min(len(sources), os.cpu_count() or 1) if sum(sizes) >= _MANY else 1
    ranked: dict[int, Standing] = {}
    with (
        Progress("ranking boards", len(found), costs=[sizes[place] for place in largest_first]) as progress,
        Workers(count, _share, list(sources)) as workers,
    ):
        for place, standing in zip(largest_first, workers.map(_stand, largest_first), strict=True):
            ranked[place] = standing
            progress.advance(1)
    standings = [ranked[place] for place in range(len(sources))]
    samples = {s.board.id: s.sample for s in standings}
    ablations = [s.ablation for s in standings if s.ablation]
    ablations += [ablate(group, union([samples[board.id] for board in group])) for group in drawn_by_seed(found)]
    agreements, transfers = across([(s.board, s.sample) for s in standings])
    return Leaderboard(standings, overview(standings), ablations, agreements, transfers)


#: Boards of this process. A board is large, so that only its position is sent to a worker.
_BOARDS: list[Source] = []


def _share(sources: Sequence[Source]) -> None:
    _BOARDS[:] = sources


def _stand(place: int) -> Standing:
    return stand(*_BOARDS[place])


def _tables(made: Leaderboard, beside: Beside) -> dict[str, str]:
    """Return the tables that have rows, by name."""
    records: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
    records["overview.csv"] = [row.flat() for row in made.overall]
    for s in made.standings:
        who = s.board.identity()
        ceilings = {
            f"ceiling_{name}": None if of is None else of.rho
            for name, of in (("rho", s.ceiling), ("rho_top_accuracy", s.top_ceiling))
        }
        for ranking, place, detail in zip(s.rankings, s.places, s.details, strict=True):
            ranks = {"rank": place.rank, "rank_low": place.low, "rank_high": place.high} if place else {}
            records["leaderboard.csv"].append(
                ranking.flat() | ranks | ceilings | {"board": s.board.name} | who | detail.flat()
            )
            of = who | {"proxy": ranking.proxy, "batch_size": ranking.batch_size}
            records["curves.csv"] += [of | point for point in detail.points()]
        for family, comparison in s.comparisons:
            records["differences.csv"].append(who | {"kind": "proxies", "batch_size": family} | comparison.flat())
        for family, agreed in s.agreements:
            records["agreement.csv"].append(who | vars(agreed) | {"batch_size": family})
    for board, agreed in made.agreements:
        records["agreement.csv"].append(board.identity() | vars(agreed))
    for transfer in made.transfers:
        records["transfer.csv"].append(transfer.source.identity() | transfer.flat())
    for a in made.ablations:
        who = a.identity()
        records["ablation.csv"] += [who | {"board": a.name} | vars(row) for row in a.spreads]
        records["seeds.csv"] += [who | vars(row) for row in a.seeds]
        records["trends.csv"] += [who | row.flat() for row in a.trends]
        records["agreement.csv"] += [who | vars(row) for row in a.agreements]
        records["differences.csv"] += [
            who | {"kind": "batch sizes", "batch_size": ""} | row.flat() for row in a.differences
        ]
    records["changes.csv"] = [change.flat() for change in beside.changes(made.standings)]
    records["searches.csv"] = [row for search in beside.searches for row in search.flat()]
    records["programs.csv"] = [program.flat() for program in beside.programs]
    return {name: as_csv(of, _DIGITS.get(name)) for name, of in records.items() if of}


def _left_over(out: Path, texts: Mapping[str, str]) -> Iterator[Path]:
    """Yield files of an earlier leaderboard that this one does not have; figures that users put there are kept."""
    for name in (*_TABLES, *_TEXTS):
        if name not in texts and (out / name).exists():
            yield out / name
    for path in _drawings(out):
        if f"{_FIGURES}/{path.name}" not in texts and figures.is_ours(path.read_text("utf-8", errors="replace")):
            yield path


def _differing(folder: Path, made: Leaderboard, beside: Beside, progress: Progress) -> Iterator[str]:
    """Yield the documents and figures that are not what the scores give."""
    drawn = any(figures.is_ours(path.read_text("utf-8", errors="replace")) for path in _drawings(folder))
    if drawn and not figures.available():
        progress.advance(2)
        yield 'the page and the figures cannot be made again without matplotlib: pip install "zcbench[report]"'
        return
    expected = _documents(made, beside, progress, drawn=drawn)
    for name, text in expected.items():
        if not (folder / name).exists():
            yield f"{name} is missing, but the scores give such a file"
        elif (folder / name).read_bytes() != text.encode():
            yield f"{name} is not what the scores give: it was changed, or made by other versions of the packages"
    for path in _left_over(folder, {**dict.fromkeys(_TABLES, ""), **expected}):
        yield f"{path.relative_to(folder)} exists, but the scores give no such file"


def _foreign(folder: Path) -> Iterator[str]:
    """Yield what no leaderboard writes; hidden files and figures that users put there may stay."""
    for path in sorted(folder.iterdir()):
        if path.name not in {*_TABLES, *_TEXTS, *_BELONGS} and not path.name.startswith("."):
            yield f"{path.name} is nothing that a leaderboard writes: move it elsewhere"


def _drawings(out: Path) -> list[Path]:
    return sorted((out / _FIGURES).glob("*.svg"))


def _differences(name: str, written: str, expected: str) -> Iterator[str]:
    old, new = (list(csv.DictReader(io.StringIO(text))) for text in (written, expected))
    if len(old) != len(new):
        yield f"{name} has {len(old)} rows, but the scores give {len(new)}"
        return
    for line, (before, now) in enumerate(zip(old, new, strict=True), start=2):
        of = " of ".join(now[column] for column in ("proxy", "space") if now.get(column))
        for column in now:
            if before.get(column) != now[column]:
                yield (
                    f"{name}, line {line}{of and ', '}{of}: {column} is {before.get(column)}, but the scores give "
                    f"{now[column]}"
                )


def _out_of_bounds(standing: Standing, rows: pd.DataFrame) -> Iterator[str]:
    board = standing.board
    for r in standing.rankings:
        where = f"{board.name}, {r.proxy}"
        c = r.correlation
        bounded = (c.rho, c.tau, c.rho_low, c.rho_high, c.tau_low, c.tau_high, c.rho_top_accuracy, c.rho_top_score)
        if any(abs(value) > 1 + 1e-12 for value in bounded):
            yield f"{where}: a correlation lies outside -1..1"
        if not 0 <= r.coverage <= 1 or not (np.isnan(c.top_overlap) or 0 <= c.top_overlap <= 1):
            yield f"{where}: coverage or overlap lies outside 0..1"
        if c.rho_low > c.rho_high or c.tau_low > c.tau_high:
            yield f"{where}: an interval ends before it begins"
        networks = len(board.recipe.accuracies)
        if not c.n <= r.networks <= networks:
            yield f"{where}: {c.n} of {r.networks} networks are ranked, but the board has {networks}"
    for name in ("params", "macs"):
        scores = rows[(rows["proxy"] == name) & (rows["space"] == board.recipe.space) & (rows["status"] == "ok")]
        stated = dict(zip(board.recipe.architectures, board.sizes.get(name, ()), strict=False))
        mine = scores[(scores["dataset"] == board.recipe.dataset) & scores["architecture"].isin(stated)]
        mine = mine[~mine["protocol"].str.contains("representatives")]  # which may lack unreachable operations
        if any(value != stated[a] for a, value in zip(mine["architecture"], mine["value"], strict=True)):
            yield f"{board.name}: scores of {name} differ from what the space states"
