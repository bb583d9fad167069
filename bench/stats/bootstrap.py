"""An exact bootstrap of rank correlations over networks, which sorts once and not once per resample.

A resample of n networks is a vector w: how often each network was drawn. With the signs of all pairs, both coefficients
are forms in w. They equal SciPy's values on the resample written out:

    rho   = w'(Sx w o Sy w) / sqrt(w'(Sx w)^2 w'(Sy w)^2)       Sx = sign(x_i - x_j)
    tau-b = w'(Sx o Sy)w / sqrt(w'|Sx|w w'|Sy|w)

The matrices are n x n. `Buckets` of ranks bring the cost of a resample down to O(n sqrt(n)), nearly all of it matrix
products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .coefficients import check
from .ranks import WHOLE, Buckets, Matrix, Small, Vector, signs


def resamples(n: int, count: int = 1000, seed: int = 0, classes: Sequence[int] | None = None) -> Matrix:
    """Draw bootstrap resamples as multiplicities `(count, n)`.

    Args:
        n: Number of networks.
        count: Number of resamples.
        seed: Seed of the draws.
        classes: Class of every network `(n,)`. Networks of one class are one function, and are drawn together: a
            resample draws as many classes as there are. Without it, every network is a class of its own, and each row
            sums to n.
    """
    if classes is not None:
        first: dict[int, int] = {}
        of = [first.setdefault(label, len(first)) for label in classes]
        return resamples(len(first), count, seed)[:, of]
    # RandomState's stream is frozen for good; the newer generators may change with numpy.
    draw = np.random.RandomState(seed).randint(n, size=(count, n)) if n else np.zeros((count, 0), dtype=np.intp)
    weights = np.empty((count, n))
    for row, drawn in zip(weights, draw, strict=True):
        row[:] = np.bincount(drawn, minlength=n)
    return weights


def by_network(weights: Matrix, n: int) -> Small:
    """Return multiplicities `(resamples, n)` as `bootstrap` takes them: `(n, resamples)`, whole numbers in float32.

    Raises:
        ValueError: They are of another number of networks.
    """
    if weights.ndim != 2 or weights.shape[1] != n:
        raise ValueError(f"weights: expected (resamples, {n}), got {weights.shape}")
    return np.ascontiguousarray(weights.T, dtype=WHOLE)


def bootstrap(scores: Vector, truth: Vector, weights: Small) -> Matrix:
    """Return Spearman's rho and Kendall's tau-b of every resample `(2, resamples)`.

    They are NaN where a resample is constant, and for fewer than three networks.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        weights: `(n, resamples)`, from `by_network`.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    check(scores, truth)
    if len(truth) < 3 or not weights.size:
        return np.full((2, weights.shape[1]), np.nan)
    x, y = Buckets(scores), Buckets(truth)
    total = weights.sum(0)
    concordance, product, square_x, square_y = np.zeros((4, len(total)))
    lower = np.zeros((len(y.rows), len(total)), dtype=WHOLE)  # by bucket of y, the weight of lower buckets of x
    grades: Small = np.empty(weights.shape, dtype=WHOLE)  # S_x w
    below = np.zeros_like(total)
    for rows in x.rows:
        w, inner = weights[rows], x.signs(rows)
        inside = w.sum(0)
        grade = grades[rows] = _grade(inner, w, 2 * below + inside - total)
        square_x += _dot(w * grade, grade)
        # Values in different buckets of both sides are counted from the higher bucket of x only, so twice.
        others = signs(y.bucket[rows], np.arange(len(lower), dtype=WHOLE))
        pairs: Small = 2 * (others @ lower)
        if inner is not None:
            pairs += (inner * signs(y.ranks[rows], y.ranks[rows])) @ w
        concordance += _dot(w, pairs)
        lower += (others == 0).T.astype(WHOLE) @ w
        below += inside
    below[:] = 0
    for rows in y.rows:
        w, inner = weights[rows], y.signs(rows)
        inside = w.sum(0)
        grade = _grade(inner, w, 2 * below + inside - total)
        square_y += _dot(w * grade, grade)
        product += _dot(w * grade, grades[rows])
        if inner is not None:
            inner *= signs(x.bucket[rows], x.bucket[rows])
            concordance += _dot(w, inner @ w)
        below += inside
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = product / np.sqrt(square_x * square_y)
        tau = concordance / np.sqrt(_untied(x, weights) * _untied(y, weights))
    drawn = np.stack([rho, tau])
    return np.where(np.isfinite(drawn), drawn, np.nan)


def interval(values: Vector, level: float = 0.95) -> tuple[float, float]:
    """Return the percentile interval of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _grade(inner: Small | None, weights: Small, outside: Small) -> Small:
    """Return by how much more weight lies below each value of a bucket than above it.

    Args:
        inner: Signs of the pairs within the bucket, None if all its values are equal.
        weights: Weights of the values of the bucket.
        outside: The same difference of weight for the values outside of the bucket.
    """
    grade: Small = np.zeros_like(weights) if inner is None else inner @ weights
    grade += outside
    return grade


def _untied(side: Buckets, weights: Small) -> Vector:
    """Return twice the number of pairs whose values differ, per resample."""
    result: Vector = weights.sum(0, dtype=np.float64) ** 2 - _dot(weights, weights)
    rows, starts = side.tied()
    if len(rows):
        own = weights[rows]
        totals = np.add.reduceat(own, starts, axis=0)
        result -= _dot(totals, totals) - _dot(own, own)
    return result


def _dot(left: Small, right: Small) -> Vector:
    """Return the inner products of columns, summed in float64: the sums are too large to be exact in float32."""
    result: Vector = np.einsum("ij,ij->j", left, right, dtype=np.float64)
    return result
