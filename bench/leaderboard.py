"""A leaderboard: the boards of a results folder ranked, with trivial baselines, frozen with the scores behind them."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import ResultsError, one_line
from .board import Board, boards, from_record
from .detail import Detail, detail
from .progress import Progress
from .report.page import page
from .report.table import as_csv, as_markdown
from .stats import resamples
from .store import KEY, Store, write_atomically
from .summary import Ranking, select_rows, summarise

#: Always there: what has no claim to know anything, and what every proxy has to beat.
BASELINES = ("params", "macs", "random")

_SCORES, _BOARDS, _TABLE = "scores.parquet", "boards.json", "leaderboard.csv"


@dataclass(frozen=True)
class Standing:
    """One board and how its proxies rank, the best Spearman first."""

    board: Board
    rankings: Sequence[Ranking]
    details: Sequence[Detail]


def write(results: Path, out: Path) -> list[Standing]:
    """Rank the boards of a results folder and write tables, a page, and all that they are made of.

    `out` gets `index.html`, `leaderboard.md` and `leaderboard.csv`, and beside them `scores.parquet` and `boards.json`,
    from which `verify` makes the tables anew: the folder is complete by itself. Equal scores give equal bytes.

    Raises:
        ResultsError: Scores are missing, or a folder cannot be read or written.
    """
    found = boards(results)
    rows = Store(results).read()
    frames = [_rows(board, rows) for board in found]
    standings = _ranked(found, frames)
    used = pd.concat(frames, ignore_index=True).drop_duplicates(list(KEY)).sort_values(list(KEY), ignore_index=True)
    scores = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(used, preserve_index=False), scores, compression="zstd")
    texts = {
        _BOARDS: json.dumps([board.document() for board in found], indent=1, allow_nan=False) + "\n",
        _TABLE: _csv(standings),
        "leaderboard.md": as_markdown([r for s in standings for r in s.rankings]),
        "index.html": page([(s.board, s.rankings, s.details) for s in standings]),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / _SCORES, scores.getvalue().to_pybytes())
        for name, text in texts.items():
            write_atomically(out / name, text.encode())
    except OSError as error:
        raise ResultsError(f"out: cannot write to {out} ({error.strerror}): choose another folder") from None
    return standings


def verify(folder: Path) -> list[str]:
    """Make the tables of a leaderboard anew from its scores and return what is not as it says, one line each.

    Beside equality with the written table, identities are checked: bounds, counts, parameters equal across seeds.

    Raises:
        ResultsError: The folder is no leaderboard, or a file of it is torn.
    """
    try:
        documents = json.loads((folder / _BOARDS).read_text("utf-8"))
        written = (folder / _TABLE).read_text("utf-8")
        rows = pq.read_table(folder / _SCORES).to_pandas()
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise ResultsError(
            f"leaderboard {folder} is none, or torn ({one_line(str(error))[:80]}): make it anew"
        ) from None
    if not isinstance(documents, list):
        raise ResultsError(f"leaderboard {folder / _BOARDS}: expected a list of boards")
    found = [from_record(document, f"leaderboard {folder / _BOARDS}") for document in documents]
    standings = _ranked(found, [_rows(board, rows) for board in found])
    return [*_differences(written, _csv(standings)), *(fault for s in standings for fault in _broken(s, rows))]


def _ranked(found: Sequence[Board], frames: Sequence[pd.DataFrame]) -> list[Standing]:
    progress = Progress(f"ranking {len(found)} boards", len(found))
    try:
        standings = []
        for board, frame in zip(found, frames, strict=True):
            standings.append(_standing(board, frame))
            progress.advance(1)
        return standings
    finally:
        progress.close()


def _standing(board: Board, rows: pd.DataFrame) -> Standing:
    recipe = board.recipe
    extra = [_baseline(board, name) for name in BASELINES if name not in recipe.versions]
    every = pd.concat([select_rows(rows, recipe), *extra])
    rankings = summarise(recipe, every)
    trained = np.isfinite(recipe.values)
    sizes = {name: values[trained] for name, values in board.sizes.items()}
    weights = resamples(len(trained), recipe.resamples)[:, trained]
    by_proxy = dict(iter(every.groupby(["proxy", "batch_size"])))

    def of(ranking: Ranking) -> Detail:
        group = by_proxy[ranking.proxy, ranking.batch_size]
        scores = group.pivot(index="architecture", columns="seed", values="value").loc[recipe.architectures]
        lower = ranking.proxy in recipe.lower
        values, accuracies = scores.to_numpy()[trained], recipe.values[trained]
        return detail(values, accuracies, sizes, weights, ranking.correlation, higher_is_better=not lower)

    # NumPy works outside of Python's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return Standing(board, rankings, list(pool.map(of, rankings)))


def _rows(board: Board, rows: pd.DataFrame) -> pd.DataFrame:
    keys = pd.DataFrame(sorted(set(board.recipe.keys())), columns=list(KEY))
    found = keys.merge(rows, how="inner", on=list(KEY))
    if len(found) < len(keys):
        raise ResultsError(
            f"{board.name}: {len(keys) - len(found)} of {len(keys)} scores are missing: run the study again, what is "
            "there is not computed anew"
        )
    return found[rows.columns]


def _baseline(board: Board, name: str) -> pd.DataFrame:
    """Return rows of a baseline that nobody had to compute."""
    recipe = board.recipe
    frames = []
    for seed in recipe.seeds:
        # RandomState's stream is frozen for good; the newer generators may change with numpy.
        noise = np.random.RandomState(seed).random_sample(len(recipe.accuracies))
        frame = pd.DataFrame({"architecture": recipe.architectures, "value": board.sizes.get(name, noise)})
        frames.append(frame.assign(seed=seed))
    return pd.concat(frames).assign(
        proxy=name, batch_size=0, version=1, status="ok", message="", wall_s=0.0, peak_mib=0.0, pool=""
    )


def _csv(standings: Sequence[Standing]) -> str:
    records = [
        ranking.flat() | {"board": standing.board.name} | detail.flat()
        for standing in standings
        for ranking, detail in zip(standing.rankings, standing.details, strict=True)
    ]
    return as_csv(records)


def _differences(written: str, anew: str) -> Iterator[str]:
    old, new = (list(csv.DictReader(io.StringIO(text))) for text in (written, anew))
    if len(old) != len(new):
        yield f"{_TABLE} has {len(old)} rows, its scores give {len(new)}"
        return
    for line, (before, now) in enumerate(zip(old, new, strict=True), start=2):
        for column in now:
            if before.get(column) != now[column]:
                yield (
                    f"{_TABLE}, line {line}, {now['proxy']} of {now['space']}: {column} is {before.get(column)}, its "
                    f"scores give {now[column]}"
                )


def _broken(standing: Standing, rows: pd.DataFrame) -> Iterator[str]:
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
        if r.networks != len(board.recipe.accuracies) or c.n > r.networks:
            yield f"{where}: {c.n} of {r.networks} networks, of {len(board.recipe.accuracies)}"
    for name in ("params", "macs"):
        scores = rows[(rows["proxy"] == name) & (rows["space"] == board.recipe.space)]
        stated = dict(zip(board.recipe.architectures, board.sizes.get(name, ()), strict=False))
        mine = scores[(scores["dataset"] == board.recipe.dataset) & scores["architecture"].isin(stated)]
        if any(value != stated[a] for a, value in zip(mine["architecture"], mine["value"], strict=True)):
            yield f"{board.name}: {name} as scored is not what the space states"
