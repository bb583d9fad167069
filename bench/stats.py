"""Rank statistics: SciPy's correlations, and a bootstrap over architectures that costs one matrix product.

A bootstrap resample of n architectures is a vector of multiplicities. Kendall's tau of a resample is then a quadratic
form in it, and Spearman's rho a weighted Pearson correlation of weighted mid-ranks, so a thousand resamples need no
sorting. Both are exact: equal to SciPy's value on the resample written out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

#: Rows of the n x n sign matrix that are held at a time.
_BLOCK = 512


def kendall(scores: Vector, truth: Vector) -> float:
    """Return Kendall's tau-b, signed; NaN for fewer than three values, which say nothing, or a constant side.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
    """
    if len(scores) < 3 or _constant(scores) or _constant(truth):
        return math.nan
    return float(stats.kendalltau(scores, truth).statistic)


def spearman(scores: Vector, truth: Vector) -> float:
    """Return Spearman's rho, signed; NaN for fewer than three values, which say nothing, or a constant side.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
    """
    if len(scores) < 3 or _constant(scores) or _constant(truth):
        return math.nan
    return float(stats.spearmanr(scores, truth).statistic)


def resamples(n: int, count: int = 1000, seed: int = 0) -> Matrix:
    """Draw bootstrap resamples as multiplicities `(count, n)`; each row sums to n."""
    # RandomState's stream is frozen for good; the newer generators may change with numpy.
    draw = np.random.RandomState(seed).randint(n, size=(count, n))
    return np.stack([np.bincount(row, minlength=n) for row in draw]).astype(np.float64)


def bootstrap_kendall(scores: Vector, truth: Vector, weights: Matrix) -> Vector:
    r"""Return tau-b of every resample.

    $$\tau_b = \frac{w^\top (S_x \circ S_y) w}{\sqrt{(w^\top |S_x| w) (w^\top |S_y| w)}}, \quad
    S_x = \operatorname{sign}(x_i - x_j)$$

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, multiplicities.

    Returns:
        `(resamples,)`, NaN where a resample is constant.
    """
    concordance = np.zeros(len(weights))
    small = weights.astype(np.float32)  # whole numbers whose sums stay below 2^24 are exact
    for start in range(0, len(scores), _BLOCK):
        rows = slice(start, start + _BLOCK)
        signs = _signs(scores, rows) * _signs(truth, rows)
        concordance += np.einsum("bi,bi->b", weights[:, rows], small @ signs.T)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Vector = concordance / np.sqrt(_untied(scores, weights) * _untied(truth, weights))
    return np.where(np.isfinite(result), result, np.nan)


def bootstrap_spearman(scores: Vector, truth: Vector, weights: Matrix) -> Vector:
    """Return rho of every resample: the weighted Pearson correlation of mid-ranks within the resample.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, multiplicities.

    Returns:
        `(resamples,)`, NaN where a resample is constant.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = _centred_ranks(scores, weights), _centred_ranks(truth, weights)
        result: Vector = (weights * x * y).sum(1) / np.sqrt((weights * x * x).sum(1) * (weights * y * y).sum(1))
    return np.where(np.isfinite(result), result, np.nan)


def interval(values: Vector, level: float = 0.95) -> tuple[float, float]:
    """Return the percentile interval of bootstrap values, NaN left out; NaN if there are none."""
    known = values[~np.isnan(values)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _constant(values: Vector) -> bool:
    return bool(values.min() == values.max())


def _signs(values: Vector, rows: slice) -> NDArray[np.float32]:
    """Return sign(v_i - v_j) for some i and all j; a difference of huge values could overflow."""
    above = np.greater(values[rows, None], values).astype(np.float32)
    return above - np.less(values[rows, None], values).astype(np.float32)


def _groups(values: Vector, weights: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """Return for every value the number of its group of ties, ascending, and the weight of every group."""
    order = np.argsort(values, kind="stable")
    _, starts, group = np.unique(values[order], return_index=True, return_inverse=True)
    back = np.empty_like(order)
    back[order] = group
    return back, np.add.reduceat(weights[:, order], starts, axis=1)


def _untied(values: Vector, weights: Matrix) -> Vector:
    """Return twice the number of pairs whose values differ, per resample."""
    _, totals = _groups(values, weights)
    result: Vector = weights.sum(1) ** 2 - (totals**2).sum(1)
    return result


def _centred_ranks(values: Vector, weights: Matrix) -> Matrix:
    group, totals = _groups(values, weights)
    after = totals.cumsum(1)
    ranks = (after - (totals - 1) / 2)[:, group]  # the mean of the ranks that the copies of a value take
    mean = (weights * ranks).sum(1, keepdims=True) / weights.sum(1, keepdims=True)
    result: Matrix = ranks - mean
    return result


@dataclass(frozen=True)
class Correlation:
    """How well scores rank: both coefficients with percentile intervals over architectures, and the top of the ranking.

    Attributes:
        n: Networks behind it: the finite scores.
        rho: Spearman, with `rho_low` and `rho_high`.
        tau: Kendall's tau-b, with `tau_low` and `tau_high`.
        rho_top_accuracy: Spearman among the 10 % most accurate networks; `tau_top_accuracy` is Kendall's.
        rho_top_score: Spearman among the 10 % with the highest scores; `tau_top_score` is Kendall's.
        top_overlap: Share of the one 10 % that is in the other.
    """

    n: int
    rho: float
    rho_low: float
    rho_high: float
    tau: float
    tau_low: float
    tau_high: float
    rho_top_accuracy: float
    tau_top_accuracy: float
    rho_top_score: float
    tau_top_score: float
    top_overlap: float


def correlate(scores: Matrix, truth: Vector, weights: Matrix, *, higher_is_better: bool = True) -> Correlation:
    """Correlate scores with accuracies: the mean over seeds, an architecture with all its seeds being one cluster.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, as `resamples` draws them.
        higher_is_better: Which end of the scores is their top; coefficients keep their sign.
    """
    finite = np.isfinite(scores)
    rows = [_one_seed(scores[keep, s], truth[keep], higher_is_better) for s, keep in enumerate(finite.T)]
    columns = [(scores[keep, s], truth[keep], weights[:, keep]) for s, keep in enumerate(finite.T) if keep.sum() > 2]
    rho, tau, *top = _mean_over_seeds(np.asarray(rows))
    empty = np.full((1, len(weights)), np.nan)
    rho_range = interval(_mean_over_seeds(np.asarray([bootstrap_spearman(*c) for c in columns] or empty)))
    tau_range = interval(_mean_over_seeds(np.asarray([bootstrap_kendall(*c) for c in columns] or empty)))
    return Correlation(int(finite.any(1).sum()), rho, *rho_range, tau, *tau_range, *map(float, top))


def top(values: Vector, share: float = 0.1) -> NDArray[np.intp]:
    """Return the indices of the highest share of values, at least one; ties go to the lower index."""
    return np.argsort(-values, kind="stable")[: math.ceil(share * len(values))]


def _one_seed(scores: Vector, truth: Vector, higher_is_better: bool) -> tuple[float, ...]:
    if not len(scores):
        return (math.nan,) * 7
    by_accuracy, by_score = top(truth), top(scores if higher_is_better else -scores)
    return (
        spearman(scores, truth),
        kendall(scores, truth),
        spearman(scores[by_accuracy], truth[by_accuracy]),
        kendall(scores[by_accuracy], truth[by_accuracy]),
        spearman(scores[by_score], truth[by_score]),
        kendall(scores[by_score], truth[by_score]),
        len(np.intersect1d(by_accuracy, by_score)) / len(by_accuracy),
    )


def _mean_over_seeds(values: Matrix) -> Vector:
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        result: Vector = np.where(known, values, 0).sum(0) / known.sum(0)
    return result
