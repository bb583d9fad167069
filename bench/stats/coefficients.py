"""Coefficients of scores with accuracies: Kendall's tau-b, Spearman's rho, Pearson's r, and the weighted tau.

A coefficient takes finite scores `(n,)` and finite accuracies `(n,)` of the same networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ranks import Matrix, Vector, concordance, grades


def kendall(scores: Vector, truth: Vector) -> float:
    r"""Return Kendall's tau-b, signed; NaN for fewer than three values or a constant side.

    $$\frac{C - D}{\sqrt{P - T_x} \sqrt{P - T_y}}$$

    Of P pairs, C are concordant and D discordant, and T have equal scores or equal accuracies. These are whole numbers,
    so the last digit is that of SciPy's `kendalltau`, whose module takes a second to import.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if _undefined(scores, truth):
        return math.nan
    difference = float(concordance(scores, truth).sum()) / 2
    untied = [_pairs(len(truth)) - _tied_pairs(values) for values in (scores, truth)]
    return float(np.clip(difference / math.sqrt(untied[0]) / math.sqrt(untied[1]), -1, 1))


def spearman(scores: Vector, truth: Vector) -> float:
    r"""Return Spearman's rho, signed; NaN for fewer than three values or a constant side.

    $$\frac{\sum_i g_i h_i}{\sqrt{\sum_i g_i^2 \sum_i h_i^2}}$$

    Here g is how many more scores a score is above than below, which is 2 rank - n - 1, and h is the same for
    accuracies. These are sums of whole numbers, so every machine has the same last digit. SciPy's `spearmanr` differs
    by round-off.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if _undefined(scores, truth):
        return math.nan
    g, h = grades(scores), grades(truth)
    return float(g @ h / math.sqrt((g @ g) * (h @ h)))


def rho_and_tau(scores: Vector, truth: Vector) -> tuple[float, float]:
    """Return `spearman` and `kendall`."""
    return spearman(scores, truth), kendall(scores, truth)


def pearson(scores: Vector, truth: Vector) -> float:
    """Return Pearson's r; NaN for fewer than three values or a side that is constant to round-off.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if _undefined(scores, truth):
        return math.nan
    x, y = _unit(scores), _unit(truth)
    return float(np.clip(x @ y, -1, 1))


def weighted_kendall(scores: Vector, truth: Vector, *, higher_is_better: bool = True) -> float:
    r"""Return the weighted tau (Vigna, 2015): pairs count 1/(r + 1) + 1/(s + 1) for their ranks r and s from 0.

    $$\frac{\sum_i v_i c_i}{\sqrt{\sum_i v_i u_i \sum_i v_i u'_i}}, \quad v_i = \frac{1}{r_i + 1}$$

    Here c is the concordant less the discordant pairs of a network. u and u' are its pairs of different scores and of
    different accuracies. The result is the mean of two values, one with the ranks by scores and one with the ranks by
    accuracies, so the top of both weighs most. Ties of one side are ordered by the other side. SciPy's `weightedtau`
    gives the same values and is three times slower. NaN as for `kendall`.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        higher_is_better: Whether the highest scores are the top; the coefficient keeps its sign.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if _undefined(scores, truth):
        return math.nan
    sign = 1 if higher_is_better else -1
    x, y = (np.unique(values, return_inverse=True, return_counts=True)[1:] for values in (sign * scores, truth))
    pairs = sign * concordance(scores, truth)
    untied = [len(truth) - counts[ranks] for ranks, counts in (x, y)]
    taus = []
    for ranks, others in ((x[0], y[0]), (y[0], x[0])):
        weights = np.empty(len(truth))
        weights[np.argsort(-(ranks * len(truth) + others))] = 1 / np.arange(1, len(truth) + 1)
        taus.append(weights @ pairs / math.sqrt((weights @ untied[0]) * (weights @ untied[1])))
    return sign * float(sum(taus)) / 2


def tied(values: Vector) -> float:
    """Return the share of pairs of values that are equal; NaN for fewer than two values."""
    return _tied_pairs(values) / _pairs(len(values)) if len(values) > 1 else math.nan


def _pairs(n: int) -> float:
    return n * (n - 1) / 2


def _tied_pairs(values: Vector) -> float:
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum() / 2)


def over_seeds(statistics: Callable[[Vector, Vector], Any], scores: Matrix, truth: Vector) -> NDArray[np.float64]:
    """Return the mean over seeds of statistics of the finite scores; a NaN of a seed is left out.

    Args:
        statistics: A function that takes the finite scores of a seed and their accuracies, and returns several values.
        scores: `(n, seeds)`.
        truth: `(n,)`, finite.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    return mean_over_seeds(np.asarray([statistics(x, y) for x, y, _ in finite_columns(scores, truth)]))


def finite_columns(scores: Matrix, truth: Vector) -> Iterator[tuple[Vector, Vector, NDArray[np.bool_]]]:
    """Yield for every seed its finite scores, the accuracies of these networks, and where they are finite.

    Args:
        scores: `(n, seeds)`.
        truth: `(n,)`, finite.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    if truth.ndim != 1 or scores.ndim != 2 or len(scores) != len(truth) or not scores.shape[1]:
        raise ValueError(f"scores: expected (n, seeds) beside accuracies (n,), got {scores.shape} and {truth.shape}")
    if faulty := int((~np.isfinite(truth)).sum()):
        raise ValueError(
            f"accuracies: expected finite ones, got {faulty} of {len(truth)} that are not: leave these networks out"
        )
    for column in scores.T:
        keep = np.isfinite(column)
        yield column[keep], truth[keep], keep


def mean_over_seeds(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over the first axis of the values that are not NaN; NaN where all are NaN."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        result: NDArray[np.float64] = np.where(known, values, 0).sum(0) / known.sum(0)
    return result


def check(scores: Vector, truth: Vector) -> None:
    """Check that two vectors have one length and finite values.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if scores.ndim != 1 or scores.shape != truth.shape:
        raise ValueError(f"coefficient: expected two vectors of one length, got {scores.shape} and {truth.shape}")
    if not (np.isfinite(scores).all() and np.isfinite(truth).all()):
        raise ValueError("coefficient: expected finite values, got NaN or infinity: leave these networks out")


def _undefined(scores: Vector, truth: Vector) -> bool:
    """Check two vectors, and return whether they have no coefficient: fewer than three values, or a constant side."""
    check(scores, truth)
    return len(scores) < 3 or bool(scores.min() == scores.max() or truth.min() == truth.max())


def _unit(values: Vector) -> Vector:
    """Return values less their mean, of length 1, or all NaN where they are constant to round-off."""
    scaled = values / np.abs(values).max()  # squares of huge or tiny values would leave the range of floats
    centred = scaled - scaled.mean()
    norm = float(np.linalg.norm(centred))
    result: Vector = centred / norm if norm > 1e-13 * np.linalg.norm(scaled) else np.full_like(centred, np.nan)
    return result
