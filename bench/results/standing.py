"""One board worked out: how its proxies rank, how far they differ, how alike they are, and what the seed does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from ..stats.coefficients import Matrix
from .ablation import Ablation, ablate
from .board import Board
from .detail import Detail, detail
from .pairs import Agreed, Comparison, between_proxies, compare, families
from .panel import Measured, Sample, in_threads, measure, of_board
from .ranking import Ranking, select_rows, summarise

#: Always there: what has no claim to know anything, and what every proxy has to beat.
BASELINES = ("params", "macs", "random")


@dataclass(frozen=True)
class Standing:
    """One board and how its proxies rank, the best Spearman first.

    Attributes:
        board: What the scores are.
        rankings: One per proxy and batch size.
        details: Of each of these.
        sample: Networks and scores.
        measured: Every panel of the sample.
        comparisons: Between proxies, under the batch size that they have in common; empty where it is that of each.
        agreements: Between the scores of proxies, under the same.
        ablation: Of boards with several seeds or batch sizes.
    """

    board: Board
    rankings: Sequence[Ranking]
    details: Sequence[Detail]
    sample: Sample
    measured: Sequence[Measured]
    comparisons: Sequence[tuple[str, Comparison]]
    agreements: Sequence[tuple[str, Agreed]]
    ablation: Ablation | None


def stand(board: Board, rows: pd.DataFrame) -> Standing:
    """Work out one board.

    Args:
        board: What the scores are.
        rows: Its scores, one per key, without those of aggregates.
    """
    recipe = board.recipe
    extra = [_baseline(board, name) for name in BASELINES if name not in recipe.versions]
    every = pd.concat([select_rows(rows, recipe), *extra])
    rankings = summarise(recipe, every)
    sample = of_board(board, every)
    panels = {(panel.proxy, panel.batch_size): panel for panel in sample.panels}
    trained = np.isfinite(recipe.values)
    sizes = {name: values[trained] for name, values in board.sizes.items()}

    def of(ranking: Ranking) -> Detail:
        panel = panels[ranking.proxy, ranking.batch_size]
        scores = _distinct(panel.scores)
        up = panel.higher_is_better
        return detail(scores, sample.truth, sizes, sample.weights, ranking.correlation, higher_is_better=up)

    details = in_threads(of, rankings)
    measured = in_threads(partial(measure, truth=sample.truth, weights=sample.weights), sample.panels)
    groups = families(sample, measured)
    several = len(recipe.seeds) > 1 or len(recipe.batch_sizes) > 1
    return Standing(
        board,
        rankings,
        details,
        sample,
        measured,
        [(name, row) for name, group in groups for row in compare(group, sample.truth, sample.weights)],
        [(name, row) for name, group in groups for row in between_proxies(sample, [m.panel for m in group])],
        ablate([board], sample, measured) if several else None,
    )


def _distinct(scores: Matrix) -> Matrix:
    """Return one column where all are the same: without chance, the mean over seeds is one of them."""
    return scores[:, :1] if np.array_equal(scores, np.tile(scores[:, :1], scores.shape[1]), equal_nan=True) else scores


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
