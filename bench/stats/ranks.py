"""Ranks in buckets: the signs of all pairs of values, in less than n x n steps.

Only the pairs within a bucket of neighbouring ranks are compared one by one. Of two values in different buckets it is
known which one is higher. There are about sqrt(n) buckets.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Small = NDArray[np.float32]

#: Whole numbers below 2^24 are exact in float32.
WHOLE = np.float32


def grades(values: Vector) -> Vector:
    """Return how many more values each one is above than below `(n,)`, which is 2 rank - n - 1."""
    ranks, counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
    return above(ranks, counts, counts.cumsum()).astype(np.float64)


def above(ranks: NDArray[np.intp], counts: NDArray[np.intp], sums: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many more values each rank is above than below.

    Args:
        ranks: Ranks from 0; equal values have one rank.
        counts: Number of values of each rank.
        sums: Running sum of `counts`.
    """
    result: NDArray[np.intp] = 2 * sums[ranks] - counts[ranks] - sums[-1]
    return result


def signs(left: Small, right: Small, buffer: Small | None = None) -> Small:
    """Return sign(left_i - right_j) of whole numbers, in a part of a buffer if there is one."""
    part = None if buffer is None else buffer[: len(left), : len(right)]
    gaps: Small = np.subtract.outer(left, right, out=part)
    return np.clip(gaps, -1, 1, out=gaps)


class Buckets:
    """The ranks of some values, in buckets of neighbours.

    Attributes:
        counts: Number of values of each rank.
        ranks: `(n,)`, ranks from 0; equal values have one rank. Differences of floats are the quickest way to signs.
        room: Number of values that a bucket has room for, unless all of them are equal.
        rows: Positions of the values of each bucket, in ascending order of rank; equal values share a bucket.
        bucket: `(n,)`, the number of the bucket of each value.
    """

    def __init__(self, values: Vector) -> None:
        ranks, self.counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
        self._order = np.argsort(ranks, kind="stable")
        self.ranks: Small = ranks.astype(WHOLE)
        ends = self.counts.cumsum()
        # At 64 and above, the products run at full speed.
        self.room = max(64, math.isqrt(len(values)))
        starts = [0]
        while (start := starts[-1]) < len(values):
            first, beyond = np.searchsorted(ends, [start, start + self.room], side="right")
            starts.append(int(ends[max(first, beyond - 1)]))  # equal values without room have a bucket of their own
        self.rows = np.split(self._order, starts[1:-1])
        self.bucket: Small = np.empty_like(self.ranks)
        for number, rows in enumerate(self.rows):
            self.bucket[rows] = number

    def signs(self, rows: NDArray[np.intp], buffer: Small | None = None) -> Small | None:
        """Return the signs of the pairs within a bucket, None if all its values are equal."""
        ranks = self.ranks[rows]
        return signs(ranks, ranks, buffer) if ranks[0] != ranks[-1] else None

    def tied(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the positions of values that others equal, in ascending order, and where each group of them starts."""
        shared = self.counts > 1
        groups = self.counts[shared]
        return self._order[np.repeat(shared, self.counts)], groups.cumsum() - groups


def concordance(scores: Vector, truth: Vector) -> Vector:
    """Return for every network how many more of its pairs are concordant than discordant; all values are finite."""
    x, y = Buckets(scores), Buckets(truth)
    ranks = y.ranks.astype(np.intp)
    every = y.counts.cumsum()
    # Memory that is used again is there already; new memory would take most of the time.
    counts, below = np.zeros((2, len(every)), dtype=np.intp)  # of lower buckets of x
    buffers = np.empty((2, x.room, x.room), dtype=WHOLE)
    result: Vector = np.empty(len(ranks))
    for rows in x.rows:
        own = ranks[rows]
        lower = above(own, counts, below)
        np.add.at(counts, own, 1)
        counts.cumsum(out=below)
        result[rows] = lower + above(own, counts, below) - above(own, y.counts, every)
        inside = x.signs(rows, buffers[0])
        if inside is not None:
            result[rows] += np.einsum("ij,ij->i", inside, signs(y.ranks[rows], y.ranks[rows], buffers[1]))
    return result
