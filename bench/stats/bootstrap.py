"""An exact bootstrap of rank correlations over architectures, which sorts once and not per resample.

A resample of n architectures is a vector of multiplicities w. With the signs of all pairs, Spearman's rho and Kendall's
tau-b of it are forms in w, equal to SciPy's values on the resample written out:

    rho   = w'(Sx w o Sy w) / sqrt(w'(Sx w)^2 w'(Sy w)^2)       Sx = sign(x_i - x_j)
    tau-b = w'(Sx o Sy)w / sqrt(w'|Sx|w w'|Sy|w)

The matrices are n x n, but only pairs within a bucket of neighbouring ranks are looked at one by one; of two buckets it
is known which is higher. With sqrt(n) buckets a resample costs O(n sqrt(n)), nearly all of it matrix products.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Small = NDArray[np.float32]

#: Whole numbers below 2^24 are exact in float32.
_WHOLE = np.float32


def by_network(weights: Vector, n: int) -> Small:
    """Return multiplicities `(resamples, n)` as `bootstrap` takes them: `(n, resamples)`, whole numbers in float32.

    Raises:
        ValueError: They are of another number of networks.
    """
    if weights.ndim != 2 or weights.shape[1] != n:
        raise ValueError(f"weights: expected (resamples, {n}), got {weights.shape}")
    return np.ascontiguousarray(weights.T, dtype=_WHOLE)


def bootstrap(scores: Vector, truth: Vector, weights: Small) -> tuple[Vector, Vector]:
    """Return Spearman's rho and Kendall's tau-b of every resample.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        weights: `(n, resamples)`, from `by_network`.

    Returns:
        Twice `(resamples,)`, NaN where a resample is constant.
    """
    if not weights.size:
        return np.full(weights.shape[1], np.nan), np.full(weights.shape[1], np.nan)
    x, y = _Side(scores), _Side(truth)
    total = weights.sum(0)
    concordance, product, square_x, square_y = np.zeros((4, len(total)))
    lower = np.zeros((len(y.buckets), len(total)), dtype=_WHOLE)  # by bucket of y, the weight of lower buckets of x
    grades: Small = np.empty(weights.shape, dtype=_WHOLE)  # S_x w
    below = np.zeros_like(total)
    for rows in x.buckets:
        w, signs = weights[rows], x.signs(rows)
        inside = w.sum(0)
        grade = grades[rows] = _grade(signs, w, 2 * below + inside - total)
        square_x += _dot(w * grade, grade)
        # What lies in another bucket of both is counted from the higher bucket of x alone, so twice.
        others = _signs(y.bucket[rows], np.arange(len(lower), dtype=_WHOLE))
        pairs: Small = 2 * (others @ lower)
        if signs is not None:
            pairs += (signs * _signs(y.ranks[rows], y.ranks[rows])) @ w
        concordance += _dot(w, pairs)
        lower += (others == 0).T.astype(_WHOLE) @ w
        below += inside
    below[:] = 0
    for rows in y.buckets:
        w, signs = weights[rows], y.signs(rows)
        inside = w.sum(0)
        grade = _grade(signs, w, 2 * below + inside - total)
        square_y += _dot(w * grade, grade)
        product += _dot(w * grade, grades[rows])
        if signs is not None:
            signs *= _signs(x.bucket[rows], x.bucket[rows])
            concordance += _dot(w, signs @ w)
        below += inside
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = product / np.sqrt(square_x * square_y)
        tau = concordance / np.sqrt(x.untied(weights) * y.untied(weights))
    return np.where(np.isfinite(rho), rho, np.nan), np.where(np.isfinite(tau), tau, np.nan)


def concordance(scores: Vector, truth: Vector) -> Vector:
    """Return for every network how many more of its pairs are concordant than discordant.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
    """
    x, y = _Side(scores), _Side(truth)
    ranks = y.ranks.astype(np.intp)
    every = y.counts.cumsum()
    # Memory that is used again is there already; new memory would take most of the time.
    counts, below = np.zeros((2, len(every)), dtype=np.intp)  # of lower buckets of x
    buffers = np.empty((2, x.room, x.room), dtype=_WHOLE)
    result: Vector = np.empty(len(ranks))
    for rows in x.buckets:
        own = ranks[rows]
        lower = above(own, counts, below)
        np.add.at(counts, own, 1)
        counts.cumsum(out=below)
        result[rows] = lower + above(own, counts, below) - above(own, y.counts, every)
        signs = x.signs(rows, buffers[0])
        if signs is not None:
            result[rows] += np.einsum("ij,ij->i", signs, _signs(y.ranks[rows], y.ranks[rows], buffers[1]))
    return result


def above(ranks: NDArray[np.intp], counts: NDArray[np.intp], sums: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many more values each rank is above than below, given how many have a rank, and their running sum."""
    result: NDArray[np.intp] = 2 * sums[ranks] - counts[ranks] - sums[-1]
    return result


def _grade(signs: Small | None, weights: Small, outside: Small) -> Small:
    """Return by how much more weight lies below each value of a bucket than above, given what lies outside of it."""
    grade: Small = np.zeros_like(weights) if signs is None else signs @ weights
    grade += outside
    return grade


class _Side:
    """One side of a correlation.

    Attributes:
        counts: How many values have each rank.
        ranks: `(n,)`, equal values have one; as floats, whose differences are the quickest way to signs.
        room: How many values a bucket has room for, unless all of them are equal.
        buckets: Positions of neighbouring ranks, ascending; equal values are never parted.
        bucket: `(n,)`, the number of the bucket.
    """

    def __init__(self, values: Vector) -> None:
        ranks, self.counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
        self._order = np.argsort(ranks, kind="stable")
        self.ranks: Small = ranks.astype(_WHOLE)
        ends = self.counts.cumsum()
        self._starts = ends - self.counts
        # At 64 and above, the products run at full speed.
        self.room = max(64, math.isqrt(len(values)))
        starts = [0]
        while (start := starts[-1]) < len(values):
            first, beyond = np.searchsorted(ends, [start, start + self.room], side="right")
            starts.append(int(ends[max(first, beyond - 1)]))  # equal values without room have a bucket of their own
        self.buckets = np.split(self._order, starts[1:-1])
        self.bucket: Small = np.empty_like(self.ranks)
        for number, rows in enumerate(self.buckets):
            self.bucket[rows] = number

    def signs(self, rows: NDArray[np.intp], buffer: Small | None = None) -> Small | None:
        """Return the signs of the pairs of a bucket, None if its values are all the same."""
        ranks = self.ranks[rows]
        return _signs(ranks, ranks, buffer) if ranks[0] != ranks[-1] else None

    def untied(self, weights: Small) -> Vector:
        """Return twice the number of pairs whose values differ, per resample."""
        totals = weights
        if len(self.counts) < len(weights):
            totals = np.add.reduceat(weights[self._order], self._starts, axis=0)
        result: Vector = weights.sum(0, dtype=np.float64) ** 2 - _dot(totals, totals)
        return result


def _signs(left: Small, right: Small, buffer: Small | None = None) -> Small:
    """Return sign(left_i - right_j) of whole numbers, in a part of a buffer if there is one."""
    part = None if buffer is None else buffer[: len(left), : len(right)]
    gaps: Small = np.subtract.outer(left, right, out=part)
    return np.clip(gaps, -1, 1, out=gaps)


def _dot(left: Small, right: Small) -> Vector:
    """Return the inner products of columns, summed in float64: the sums are too large to be exact in float32."""
    result: Vector = np.einsum("ij,ij->j", left, right, dtype=np.float64)
    return result
