"""How far proxies, batch sizes, seeds and data sets differ: in coefficients, in scores, and in what they choose."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stats.coefficients import Difference, Matrix, Vector, differences, holm, mean_over_seeds
from ..stats.conditional import agreement
from ..stats.top import transfer
from .board import Board
from .detail import CHOSEN
from .panel import Measured, Panel, Sample, common_seeds, in_threads, measure


@dataclass(frozen=True)
class Comparison:
    """By how much one panel ranks better than another, on the networks and seeds that both scored.

    Coefficients count in the direction that each proxy claims, so a positive difference is to the first one's credit.

    Attributes:
        first: The one.
        second: The other.
        n: Networks that both scored, with any common seed.
        rho_first: Spearman of the first on these, mean over seeds; `rho_second`, `tau_first` and `tau_second` likewise.
        rho: The difference of rho.
        tau: The difference of tau.
    """

    first: Panel
    second: Panel
    n: int
    rho_first: float
    rho_second: float
    tau_first: float
    tau_second: float
    rho: Difference
    tau: Difference

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        record: dict[str, Any] = {
            "first": self.first.proxy,
            "first_batch_size": self.first.batch_size,
            "second": self.second.proxy,
            "second_batch_size": self.second.batch_size,
            "n": self.n,
        }
        for name in ("rho", "tau"):
            of = getattr(self, name)
            record |= {f"{name}_{which}": getattr(self, f"{name}_{which}") for which in ("first", "second")}
            record |= {f"{name}_{key}": getattr(of, key) for key in ("difference", "low", "high", "p", "p_normal")}
            record[f"{name}_p_holm"] = of.p_holm
        return record


def compare(found: Sequence[Measured], truth: Vector, weights: Matrix) -> list[Comparison]:
    """Compare every pair of panels on the same resamples; Holm's correction is over all of these pairs.

    Args:
        found: Of one sample.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, the ones they were measured with.
    """
    pairs = list(combinations(range(len(found)), 2))
    wanted: dict[tuple[int, bytes], Panel] = {}
    keys, counts = [], []
    for a, b in pairs:
        masks = _common(found[a].panel, found[b].panel)
        keys.append([(i, mask.tobytes()) for i, mask in zip((a, b), masks, strict=True)])
        counts.append(int(masks[0].any(1).sum()))
        for i, mask in zip((a, b), masks, strict=True):
            panel = found[i].panel
            if not (mask == panel.finite).all():
                scores = np.where(mask, panel.scores, np.nan)
                wanted.setdefault((i, mask.tobytes()), dataclasses.replace(panel, scores=scores))
    measured = dict(
        zip(wanted, in_threads(partial(measure, truth=truth, weights=weights), wanted.values()), strict=True)
    )
    result = []
    for (a, b), own, n in zip(pairs, keys, counts, strict=True):
        both = [measured.get(key, found[key[0]]) for key in own]
        rho, tau = _gap(both, "rho"), _gap(both, "tau")
        result.append(Comparison(found[a].panel, found[b].panel, n, *rho[:2], *tau[:2], rho[2], tau[2]))
    corrected = [holm(np.asarray([getattr(c, name).p_normal for c in result])) for name in ("rho", "tau")]
    return [
        dataclasses.replace(
            c,
            rho=dataclasses.replace(c.rho, p_holm=float(rho)),
            tau=dataclasses.replace(c.tau, p_holm=float(tau)),
        )
        for c, rho, tau in zip(result, *corrected, strict=True)
    ]


def _gap(both: Sequence[Measured], name: str) -> tuple[float, float, Difference]:
    """Return a coefficient of either of two panels, and their difference on the same resamples."""
    values = [m.panel.sign * float(mean_over_seeds(getattr(m, name))) for m in both]
    drawn = [m.panel.sign * mean_over_seeds(getattr(m, f"drawn_{name}")) for m in both]
    (difference,) = differences(np.asarray(values), np.stack(drawn))
    return values[0], values[1], difference


def _common(first: Panel, second: Panel) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which scores of either have a finite one of the same network and seed in the other."""
    masks = np.zeros(first.scores.shape, dtype=bool), np.zeros(second.scores.shape, dtype=bool)
    for column, seed in enumerate(first.seeds):
        if seed in second.seeds:
            other = second.seeds.index(seed)
            both = np.isfinite(first.scores[:, column]) & np.isfinite(second.scores[:, other])
            masks[0][:, column] = masks[1][:, other] = both
    return masks


def families(sample: Sample, found: Sequence[Measured]) -> list[tuple[str, list[Measured]]]:
    """Return what is compared with each other, under the batch size that it has in common; empty where it has none.

    A proxy with one batch size alone, as of its protocol or without any, is compared at every batch size of the others.
    """
    sizes: dict[tuple[str, int], set[int]] = {}
    for panel in sample.panels:
        sizes.setdefault((panel.proxy, panel.version), set()).add(panel.batch_size)
    several = sorted(set().union(*(own for own in sizes.values() if len(own) > 1)))
    if not several:
        return [("", list(found))]
    return [
        (
            str(size),
            [m for m in found if m.panel.batch_size == size or len(sizes[m.panel.proxy, m.panel.version]) == 1],
        )
        for size in several
    ]


@dataclass(frozen=True)
class Agreed:
    """How alike two columns rank the networks: means over seeds, in the direction that each proxy claims.

    Attributes:
        kind: What differs: proxies, seeds, batch sizes, data sets or truths.
        proxy: Whose scores they are, where it is one.
        batch_size: At which they were made, where it is one.
        first: Name of the one.
        second: Name of the other.
        n: Networks that both know, of the seed with the fewest.
        rho: Spearman; NaN for fewer than three networks or a constant side.
        tau: Kendall's tau-b.
    """

    kind: str
    proxy: str
    batch_size: int | None
    first: str
    second: str
    n: int
    rho: float
    tau: float


def agree(columns: Iterable[tuple[Vector, Vector]], sign: int = 1) -> tuple[int, float, float]:
    """Return the fewest networks, and the means of rho and tau, of pairs of columns `(n,)`, multiplied by a sign."""
    found = [agreement(np.column_stack(pair)) for pair in columns]
    if not found:
        return 0, math.nan, math.nan
    values = np.asarray([(a.rho[0, 1], a.tau[0, 1]) for a in found])
    rho, tau = (sign * mean_over_seeds(values)).tolist()
    return min(a.n for a in found), rho, tau


def between_proxies(sample: Sample, panels: Sequence[Panel]) -> Iterator[Agreed]:
    """Yield the agreement of every two panels, seed by seed."""
    for a, b in combinations(panels, 2):
        n, rho, tau = agree(common_seeds(a, b), a.sign * b.sign)
        yield Agreed("proxies", "", None, sample.label(a), sample.label(b), n, rho, tau)


def between_seeds(panel: Panel) -> Iterator[Agreed]:
    """Yield the agreement of the scores of every two seeds."""
    for a, b in combinations(range(len(panel.seeds)), 2):
        n, rho, tau = agree([(panel.scores[:, a], panel.scores[:, b])])
        yield Agreed("seeds", panel.proxy, panel.batch_size, str(panel.seeds[a]), str(panel.seeds[b]), n, rho, tau)


def between_batch_sizes(panels: Sequence[Panel]) -> Iterator[Agreed]:
    """Yield the agreement of every two batch sizes of one proxy, seed by seed."""
    for a, b in combinations(panels, 2):
        yield Agreed("batch sizes", a.proxy, None, str(a.batch_size), str(b.batch_size), *agree(common_seeds(a, b)))


@dataclass(frozen=True)
class Transferred:
    """What the choice by the scores of one board is worth by the accuracies of another with the same networks.

    Attributes:
        source: The board of the scores.
        proxy: Whose scores they are.
        batch_size: At which they were made.
        truth: The accuracies.
        n: Networks to choose from.
        k: How many are chosen.
        best: Best accuracy among them.
        regret: By how much it misses the best of all networks.
        rank: Rank of the most accurate network by score.
        percentile: Percent of the other networks that score below it.
        rho: Spearman of the scores with these accuracies, signed, mean over seeds.
        tau: Kendall's tau-b of the same.
    """

    source: Board
    proxy: str
    batch_size: int
    truth: str
    n: int
    k: int
    best: float
    regret: float
    rank: float
    percentile: float
    rho: float
    tau: float

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        return {name: value for name, value in vars(self).items() if name != "source"}


def across(boards: Sequence[tuple[Board, Sample]]) -> tuple[list[tuple[Board, Agreed]], list[Transferred]]:
    """Compare boards that share space, networks, protocol and device: their scores, accuracies, and what is chosen.

    Scores of one proxy on two data sets agree or not; so do two accuracies; and the networks that a proxy chooses on
    one data set are looked up on another (HNAS asks for that: Shu et al., NeurIPS 2022).

    Returns:
        Agreements, with the board of the first column, and what the choice is worth elsewhere.
    """
    groups: dict[tuple[Any, ...], list[tuple[Board, Sample]]] = {}
    for board, sample in boards:
        recipe = board.recipe
        key = (recipe.space, frozenset(recipe.architectures), recipe.protocol, recipe.device)
        groups.setdefault(key, []).append((board, sample))
    agreed: list[tuple[Board, Agreed]] = []
    transferred: list[Transferred] = []
    for group in groups.values():
        truths = {board.recipe.truth: (board, sample) for board, sample in reversed(group)}
        for (name, (board, a)), (other, (_, b)) in combinations(sorted(truths.items()), 2):
            rows, others = _aligned(a, b)
            agreed.append((board, Agreed("truths", "", None, name, other, *agree([(a.truth[rows], b.truth[others])]))))
        for (board, a), (other_board, b) in combinations(group, 2):
            if board.recipe.dataset != other_board.recipe.dataset:
                names = board.recipe.dataset, other_board.recipe.dataset
                agreed += [(board, row) for row in _between_data_sets(a, b, names)]
        if len(truths) > 1:
            for board, sample in group:
                for name, (_, other_sample) in sorted(truths.items()):
                    transferred += _transferred(board, sample, name, other_sample)
    return agreed, transferred


def _aligned(a: Sample, b: Sample) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the networks that two samples have in common."""
    place = {network: row for row, network in enumerate(b.networks)}
    pairs = [(row, place[network]) for row, network in enumerate(a.networks) if network in place]
    rows = np.asarray(pairs, dtype=np.intp).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _between_data_sets(a: Sample, b: Sample, names: tuple[str, str]) -> Iterator[Agreed]:
    rows, others = _aligned(a, b)
    theirs = {(panel.proxy, panel.version, panel.batch_size): panel for panel in b.panels}
    for panel in a.panels:
        other = theirs.get((panel.proxy, panel.version, panel.batch_size))
        if other is not None:
            n, rho, tau = agree((x[rows], y[others]) for x, y in common_seeds(panel, other))
            yield Agreed("data sets", panel.proxy, panel.batch_size, *names, n, rho, tau)


def _transferred(board: Board, sample: Sample, name: str, other: Sample) -> Iterator[Transferred]:
    rows, others = _aligned(sample, other)
    if not len(rows):
        return
    truth = other.truth[others]
    k = min(CHOSEN, len(rows))
    for panel in sample.panels:
        (found,) = transfer(
            {"here": panel.scores[rows]}, {"there": truth}, k, higher_is_better=panel.higher_is_better
        ).values()
        choice = found.choice
        yield Transferred(
            board,
            panel.proxy,
            panel.batch_size,
            name,
            choice.n,
            choice.k,
            choice.best,
            choice.regret,
            choice.rank,
            choice.percentile,
            found.rho,
            found.tau,
        )
