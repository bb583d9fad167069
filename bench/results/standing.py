"""One board computed: how its proxies rank, how they differ, how alike they rank, and what seeds and batch sizes do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .ablation import Ablation, ablate
from .board import Board
from .pairs import Agreed, Comparison, Transferred, between_proxies, compare, families
from .panel import Sample, in_threads, of_recipe
from .ranking import Detail, Ranking, detail, rank, with_aggregates

#: Baselines of every board: what says nothing of accuracy, and what every proxy has to beat.
BASELINES = ("params", "macs", "random")


@dataclass(frozen=True)
class Standing:
    """One board and how its proxies rank, the best Spearman first.

    Attributes:
        rankings: Rankings, one per proxy and batch size.
        details: Details, one per ranking.
        sample: Networks, accuracies and panels of the board.
        comparisons: Comparisons of two proxies, with their common batch size; "" if all proxies have one batch size.
        agreements: Agreements of the scores of two proxies, with their common batch size.
        ablation: What seeds and batch sizes do, None for a board with one seed and one batch size.
    """

    board: Board
    rankings: Sequence[Ranking]
    details: Sequence[Detail]
    sample: Sample
    comparisons: Sequence[tuple[str, Comparison]]
    agreements: Sequence[tuple[str, Agreed]]
    ablation: Ablation | None


@dataclass(frozen=True)
class Leaderboard:
    """All results of the boards of a results folder.

    Attributes:
        standings: How the proxies of every board rank.
        ablations: Ablations of boards with several seeds or batch sizes, and of boards whose seed also draws networks.
        agreements: Agreement between two boards on the same networks, with the first of the two boards.
        transfers: Accuracies on one board of the networks that are chosen by the scores of another.
    """

    standings: Sequence[Standing]
    ablations: Sequence[Ablation]
    agreements: Sequence[tuple[Board, Agreed]]
    transfers: Sequence[Transferred]


def stand(board: Board, rows: pd.DataFrame) -> Standing:
    """Compute one board from its scores, one per key, without those of aggregates.

    Raises:
        IncompleteError: A score is missing.
    """
    recipe = board.recipe
    extra = [baseline(board, name) for name in BASELINES if name not in recipe.versions]
    every = pd.concat([with_aggregates(rows, recipe, board.name), *extra])
    sample = of_recipe(recipe, every)
    rankings = rank(recipe, every, sample)
    measured = {(m.panel.proxy, m.panel.batch_size): m for m in sample.measured}
    trained = np.isfinite(recipe.values)
    sizes = {name: values[trained] for name, values in board.sizes.items()}

    def of(ranking: Ranking) -> Detail:
        return detail(measured[ranking.proxy, ranking.batch_size], sample, sizes, ranking.correlation)

    groups = families(sample)
    several = len(recipe.seeds) > 1 or len(recipe.batch_sizes) > 1
    return Standing(
        board,
        rankings,
        in_threads(of, rankings),
        sample,
        [(name, row) for name, group in groups for row in compare(group, sample.truth, sample.weights)],
        [(name, row) for name, group in groups for row in between_proxies(sample, [m.panel for m in group])],
        ablate([board], sample) if several else None,
    )


def baseline(board: Board, name: str) -> pd.DataFrame:
    """Return the rows of a baseline, which is known without scoring."""
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
