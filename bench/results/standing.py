"""One board computed: how its proxies rank, how they differ, how alike they rank, and what seeds and batch sizes do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..stats.ceiling import Ceiling, ceiling
from ..stats.conditional import Rest
from ..stats.places import Place, places
from .ablation import Ablation, ablate
from .board import Board
from .pairs import Agreed, Comparison, between_proxies, compare, families
from .panel import Sample, in_threads, of_recipe
from .ranking import Detail, Ranking, detail, rank, with_aggregates

#: Baselines of every board: what says nothing of accuracy, and what every proxy has to beat.
BASELINES = ("params", "macs", "random")


@dataclass(frozen=True)
class Standing:
    """One board and how its proxies rank, the best Kendall's tau first.

    Attributes:
        rankings: Rankings, one per proxy and batch size.
        places: Places by Kendall's tau, one per ranking, None for a proxy without a coefficient.
        details: Details, one per ranking.
        sample: Networks, accuracies and panels of the board.
        comparisons: Comparisons of two proxies, with their common batch size; "" if all proxies have one batch size.
        agreements: Agreements of the scores of two proxies, with their common batch size.
        ablation: What seeds and batch sizes do, None for a board with one seed and one batch size.
        ceiling: The highest rho that the noise of training leaves, None where no single trainings are known.
        top_ceiling: The same among the 10 % most accurate networks, None with fewer than three trainings.
    """

    board: Board
    rankings: Sequence[Ranking]
    places: Sequence[Place | None]
    details: Sequence[Detail]
    sample: Sample
    comparisons: Sequence[tuple[str, Comparison]]
    agreements: Sequence[tuple[str, Agreed]]
    ablation: Ablation | None
    ceiling: Ceiling | None
    top_ceiling: Ceiling | None


def stand(board: Board, rows: pd.DataFrame) -> Standing:
    """Compute one board from its scores, one per key, without those of aggregates.

    Raises:
        IncompleteError: A score is missing.
    """
    recipe = board.recipe
    sample, rankings = ranked(board, rows)
    measured = {(m.panel.proxy, m.panel.batch_size): m for m in sample.measured}
    trained = np.isfinite(recipe.values)
    sizes = {name: values[trained] for name, values in board.sizes.items()}

    rests: defaultdict[str, Rest] = defaultdict(dict)

    def of(ranking: Ranking) -> Detail:
        return detail(measured[ranking.proxy, ranking.batch_size], sample, sizes, ranking.correlation, rests)

    groups = families(sample)
    comparisons = [(name, row) for name, group in groups for row in compare(group, sample.truth, sample.weights)]
    several = len(recipe.seeds) > 1 or len(recipe.batch_sizes) > 1
    return Standing(
        board,
        rankings,
        _places(rankings, comparisons),
        in_threads(of, rankings),
        sample,
        comparisons,
        [(name, row) for name, group in groups for row in between_proxies(sample, [m.panel for m in group])],
        ablate([board], sample) if several else None,
        *_ceilings(board, sample),
    )


def ranked(board: Board, rows: pd.DataFrame) -> tuple[Sample, list[Ranking]]:
    """Return the networks of a board with the scores of its proxies, and how these rank, the best Kendall's tau first.

    Raises:
        IncompleteError: A score is missing.
    """
    extra = [baseline(board, name) for name in BASELINES if name not in board.recipe.versions]
    every = pd.concat([with_aggregates(rows, board.recipe, board.name), *extra])
    sample = of_recipe(board.recipe, every)
    return sample, rank(board.recipe, every, sample)


def _places(rankings: Sequence[Ranking], comparisons: Sequence[tuple[str, Comparison]]) -> list[Place | None]:
    """Return the place of every ranking among those with its batch size."""
    found: dict[tuple[str, int], Place | None] = {}
    for family in dict.fromkeys(name for name, _ in comparisons):
        rows = [row for name, row in comparisons if name == family]
        keys = list(dict.fromkeys((p.proxy, p.batch_size) for row in rows for p in (row.first, row.second)))
        at = {key: i for i, key in enumerate(keys)}
        gaps, p = np.full((2, len(keys), len(keys)), np.nan)
        for row in rows:
            a, b = (at[panel.proxy, panel.batch_size] for panel in (row.first, row.second))
            gaps[a, b], gaps[b, a] = row.tau.difference, -row.tau.difference
            # A census has no resamples and no p-value: what differs in it differs.
            p[a, b] = p[b, a] = row.tau.p_holm
        census = rankings[0].census
        values = np.asarray([next(r.claimed_tau for r in rankings if (r.proxy, r.batch_size) == key) for key in keys])
        for key, place in zip(keys, places(values, gaps, np.where(census & (gaps != 0), 0, p)), strict=True):
            found.setdefault(key, place)
    return [found.get((r.proxy, r.batch_size)) for r in rankings]


def _ceilings(board: Board, sample: Sample) -> tuple[Ceiling | None, Ceiling | None]:
    trained = np.isfinite(board.recipe.values)
    runs = [values[trained] for name, values in board.sizes.items() if name.startswith("training ")]
    if len(runs) < 2:
        return None, None
    known = np.column_stack(runs)
    return ceiling(known, sample.weights), ceiling(known, sample.weights, 0.1) if len(runs) > 2 else None


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
