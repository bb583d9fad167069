"""The top of a ranking: how good the networks are that a proxy would choose, at every cut-off.

There are two tops: the most accurate networks, and the networks with the highest scores. A correlation can have
different signs in the two, so every name says which top it means. Networks that are equal at a cut-off share the places
that are left: each of them counts by its share, and best, nDCG and overlap are the mean over all orders of the equals.
So nothing depends on the order of the networks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bootstrap import bootstrap
from .coefficients import finite_columns, mean_over_seeds, over_seeds
from .ranks import WHOLE, Matrix, Small, Vector

#: Fewest networks that a coefficient is said of: that of nine networks has an interval of almost -1 to 1.
FEWEST = 10
#: Cut-offs from 1 % to 100 %.
SHARES = tuple(percent / 100 for percent in range(1, 101))


def size(n: int, share: float) -> int:
    """Return how many of n networks a share is: rounded up, at least one."""
    return int(sizes_of(np.array([n], dtype=np.float64), share)[0])


def sizes_of(counts: Vector, share: float) -> Vector:
    """Return how many of each count of networks `(columns,)` a share is: rounded up, at least one."""
    # 0.07 * 100 is a little more than 7 and means 7.
    found: Vector = np.maximum(1, np.ceil(share * counts - 1e-9))
    return found


def top(values: Vector, share: float = 0.1) -> NDArray[np.intp]:
    """Return the indices of the highest share of values, at least one; ties go to the lower index."""
    return np.argsort(-values, kind="stable")[: size(len(values), share)]


def among_top(leading: Vector, scores: Vector, truth: Vector, weights: Small, share: float = 0.1) -> Matrix:
    """Return Spearman and Kendall among the highest share of `leading`, of every resample `(2, resamples)`.

    The share is that of the networks of the resample. NaN where this is fewer than `FEWEST` networks.

    Args:
        leading: `(n,)`, the values by which the top is chosen.
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        weights: `(n, resamples)`, from `by_network`.
        share: Share of the networks.
    """
    tops = sizes_of(weights.sum(0, dtype=np.float64), share)
    order = np.argsort(-leading, kind="stable")
    highest = order[: 2 * size(len(order), share)]
    while len(highest) < len(order) and (weights[highest].sum(0, dtype=np.float64) < tops).any():
        highest = order[: 2 * len(highest)]
    rows = np.flatnonzero(leading >= leading[highest[-1]]) if len(highest) else highest  # equals of the last one too
    shares, _ = inside(leading[rows], tops, weights[rows])
    used = shares.any(1)
    found = bootstrap(scores[rows[used]], truth[rows[used]], shares[used])
    return np.where(tops >= FEWEST, found, np.nan)


def inside(values: Vector, sizes: Vector, weights: Small | None = None) -> tuple[Small, Vector]:
    """Return how much of each network is among the highest values, for several sizes of the top.

    Equal values at a cut-off share the places that are left.

    Args:
        values: `(n,)`.
        sizes: `(columns,)`, how many networks each top has.
        weights: `(n, columns)`, how often each network is there; once without it.

    Returns:
        Whole numbers `(n, columns)`, and what to divide each column by `(columns,)`. Coefficients need no division.
    """
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(values) else order
    each = np.ones((len(values), 1), dtype=WHOLE) if weights is None else weights[order]
    groups = np.add.reduceat(each, starts, axis=0, dtype=np.float64)
    left = np.clip(sizes - (groups.cumsum(0) - groups), 0, groups)
    cut = (left > 0) & (left < groups)
    scale: Vector = np.where(cut.any(0), (groups * cut).sum(0), 1)
    factor = np.where(cut, left, np.where(left > 0, scale, 0))
    result: Small = np.empty((len(values), len(sizes)), dtype=WHOLE)
    result[order] = each * np.repeat(factor, np.diff(np.append(starts, len(values))), axis=0)
    return result, scale


@dataclass(frozen=True)
class Tops:
    r"""The top at every cut-off: arrays `(shares,)`, means over seeds.

    nDCG is the normalised discounted cumulative gain of the k highest scores:

    $$\frac{\sum_{j=1}^{k} g(a_j) / \log_2(1 + j)}{\sum_{j=1}^{k} g(a^*_j) / \log_2(1 + j)}$$

    Here a_j is the accuracy of the network with the j-th highest score, and a*_j is the j-th highest accuracy.

    Attributes:
        n: Number of networks with a finite score of any seed.
        shares: Cut-offs, as shares of the networks with a finite score, rounded up.
        precision: Share of the networks with the highest scores that are among the most accurate networks.
        ndcg: nDCG with the gain 2^a - 1, a in percent (VKDNW: Týbl and Neumann, CVPR 2025): one percentage point of
            accuracy doubles it. NaN where an accuracy is outside of 0 to 100, or if every gain is 0.
        ndcg_relative: nDCG with a linear gain: 0 for the worst network and 1 for the best.
        best: Best accuracy among the networks with the highest scores.
        regret: Best accuracy of all networks, scored or not, less `best`.
        rho_top_accuracy: Spearman among the most accurate networks.
        tau_top_accuracy: Kendall's tau-b among the most accurate networks.
        rho_top_score: Spearman among the networks with the highest scores.
        tau_top_score: Kendall's tau-b among the networks with the highest scores.
    """

    n: int
    shares: Vector
    precision: Vector
    ndcg: Vector
    ndcg_relative: Vector
    best: Vector
    regret: Vector
    rho_top_accuracy: Vector
    tau_top_accuracy: Vector
    rho_top_score: Vector
    tau_top_score: Vector


def tops(scores: Matrix, truth: Vector, shares: Sequence[float] = SHARES, *, higher_is_better: bool = True) -> Tops:
    """Measure the top of a ranking at every cut-off; scores that are not finite are left out, per seed.

    Coefficients are NaN among fewer than `FEWEST` networks or where a side is constant. Without scores everything is
    NaN.

    Args:
        scores: `(n, seeds)`.
        truth: `(n,)`, finite.
        shares: Cut-offs, each above 0 and at most 1, ascending.
        higher_is_better: Whether the highest scores are the top; coefficients keep their sign.

    Raises:
        ValueError: Shapes do not fit, an accuracy is not finite, or shares are not ascending within (0, 1].
    """
    cuts = np.asarray(shares, dtype=np.float64)
    if cuts.ndim != 1 or not len(cuts) or not (cuts > 0).all() or not (cuts <= 1).all() or (np.diff(cuts) < 0).any():
        raise ValueError(f"shares: expected ascending numbers above 0 and at most 1, got {str(shares)[:60]}")
    best = float(truth.max()) if len(truth) else math.nan
    sign = 1 if higher_is_better else -1
    curves = over_seeds(lambda x, y: _curves(x, y, cuts, best, sign), scores, truth)
    return Tops(int(np.isfinite(scores).any(1).sum()), cuts, *curves)


@dataclass(frozen=True)
class Choice:
    """The networks with the k highest scores: means over seeds.

    Attributes:
        n: Number of networks to choose from, those with a finite score of any seed.
        k: Number of chosen networks.
        best: Best accuracy among the chosen networks.
        regret: Best accuracy of all networks, scored or not, less `best`.
        rank: Rank of the most accurate network by score, 1 for the highest score; ties take the mean of their ranks.
        percentile: Percentage of the other networks that score below the most accurate network; ties count half.
    """

    n: int
    k: int
    best: float
    regret: float
    rank: float
    percentile: float


def choose(scores: Matrix, truth: Vector, k: int, *, higher_is_better: bool = True) -> Choice:
    """Choose the networks with the k highest scores; scores that are not finite are left out, per seed.

    The most accurate network is that of all networks, scored or not. If several are equally accurate, it is the one
    with the lowest index. If it has no finite score, its rank and percentile are NaN.

    Args:
        scores: `(n, seeds)`.
        truth: `(n,)`, finite; the accuracies may be those of another data set.
        k: Number of networks to choose; all networks if there are fewer.
        higher_is_better: Whether the highest scores are the top.

    Raises:
        ValueError: k is below 1, shapes do not fit, or an accuracy is not finite.
    """
    if k < 1:
        raise ValueError(f"k: expected at least 1, got {k}")
    rows = []
    for x, y, keep in finite_columns(scores, truth):
        oriented = x if higher_is_better else -x
        best = float(_best(oriented, y, np.asarray([min(k, len(x))]))[0]) if len(x) else math.nan
        winner = int(truth.argmax()) if len(truth) else 0
        rank = percentile = math.nan
        if len(x) and keep[winner]:
            own = oriented[int(keep[:winner].sum())]
            rank = float((oriented > own).sum() + ((oriented == own).sum() + 1) / 2)
            percentile = 100 * (len(x) - rank) / (len(x) - 1) if len(x) > 1 else math.nan
        regret = float(truth.max()) - best if len(x) else math.nan
        rows.append((best, regret, rank, percentile))
    n = int(np.isfinite(scores).any(1).sum())
    return Choice(n, k, *map(float, mean_over_seeds(np.asarray(rows))))


def _curves(scores: Vector, truth: Vector, shares: Vector, best_of_all: float, sign: int) -> Matrix:
    """Return the rows of `Tops` for one seed, `(9, shares)`."""
    n = len(truth)
    if not n:
        return np.full((9, len(shares)), np.nan)
    sizes = np.asarray([size(n, share) for share in shares])
    oriented = sign * scores
    by_score, by_accuracy = inside(oriented, sizes), inside(truth, sizes)
    both = np.einsum("ij,ij->j", by_score[0], by_accuracy[0], dtype=np.float64)
    best = _best(oriented, truth, sizes)
    low, high = truth.min(), truth.max()
    # A common factor of all gains cancels; this factor keeps them from overflow.
    percent = np.exp2(truth - high) - np.exp2(-high) if low >= 0 and high <= 100 else np.full(n, np.nan)
    known = sizes >= FEWEST
    return np.stack([
        both / (by_score[1] * by_accuracy[1] * sizes),
        _ndcg(oriented, percent)[sizes - 1],
        _ndcg(oriented, truth / 2 - low / 2)[sizes - 1],
        best,
        best_of_all - best,
        *np.where(known, bootstrap(scores, truth, by_accuracy[0]), np.nan),
        *np.where(known, bootstrap(scores, truth, by_score[0]), np.nan),
    ])  # fmt: skip


def _best(oriented: Vector, truth: Vector, sizes: NDArray[np.intp]) -> Vector:
    """Return the best accuracy among the highest scores, for ascending sizes: the mean over the orders of equals."""
    order = np.lexsort((-truth, -oriented))
    x, y = oriented[order], truth[order]
    best = np.maximum.accumulate(y)
    result = best[sizes - 1]
    for column, end in enumerate(sizes.tolist()):
        start, stop = (int(np.searchsorted(-x, -x[end - 1], side=side)) for side in ("left", "right"))
        if end < stop:
            count, taken = stop - start, end - start
            j = np.arange(count - taken)
            # The best that is taken of the equals is the j-th of them with this probability.
            chance = taken / count * np.append(1, ((count - taken - j) / (count - 1 - j)).cumprod())
            of = y[start : start + len(chance)]
            result[column] = chance @ (np.maximum(of, best[start - 1]) if start else of)
    return result


def _ndcg(oriented: Vector, gains: Vector) -> Vector:
    """Return nDCG at every cut-off from 1 to n; equal scores share their gains."""
    discount = np.log2(np.arange(2, len(gains) + 2))
    ideal = (np.sort(gains)[::-1] / discount).cumsum()
    place, counts = np.unique(-oriented, return_inverse=True, return_counts=True)[1:]
    shared = np.repeat(np.bincount(place, gains) / counts, counts)
    with np.errstate(invalid="ignore"):
        result: Vector = (shared / discount).cumsum() / ideal
    return result
