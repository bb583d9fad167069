"""The top of a ranking: how good the networks are that a proxy would choose, at every cut-off.

There are two tops: the most accurate networks, and the networks with the highest scores. A correlation can have
different signs in the two, so every name says which top it means. Ties at a cut-off go to the lower index, so nothing
depends on chance. With many ties the result depends on the order of the networks, so read the share of ties beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .coefficients import finite_columns, mean_over_seeds, over_seeds
from .ranks import Matrix, Vector, above

#: Cut-offs from 1 % to 100 %.
SHARES = tuple(percent / 100 for percent in range(1, 101))


def size(n: int, share: float) -> int:
    """Return how many of n networks a share is: rounded up, at least one."""
    # 0.07 * 100 is a little more than 7 and means 7.
    return max(1, math.ceil(share * n - 1e-9))


def top(values: Vector, share: float = 0.1) -> NDArray[np.intp]:
    """Return the indices of the highest share of values, at least one; ties go to the lower index."""
    return _descending(values)[: size(len(values), share)]


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

    Coefficients are NaN among fewer than three networks or where a side is constant. Without scores everything is NaN.

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
        best = float(y[_descending(oriented)[:k]].max()) if len(x) else math.nan
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
    by_score, by_accuracy = _descending(sign * scores), _descending(truth)
    place = np.empty((2, n), dtype=np.intp)
    place[0, by_score] = place[1, by_accuracy] = np.arange(n)
    inside = np.bincount(place.max(0), minlength=n).cumsum()  # how many are within both tops
    best = np.maximum.accumulate(truth[by_score])
    low, high = truth.min(), truth.max()
    # A common factor of all gains cancels; this factor keeps them from overflow.
    percent = np.exp2(truth - high) - np.exp2(-high) if low >= 0 and high <= 100 else np.full(n, np.nan)
    at = sizes - 1
    return np.stack([
        inside[at] / sizes,
        _ndcg(by_score, percent)[at],
        _ndcg(by_score, truth / 2 - low / 2)[at],
        best[at],
        best_of_all - best[at],
        *_among_first(truth, scores, by_accuracy, sizes),
        *(sign * values for values in _among_first(sign * scores, truth, by_score, sizes)),
    ])  # fmt: skip


def _descending(values: Vector) -> NDArray[np.intp]:
    return np.argsort(-values, kind="stable")


def _ndcg(order: NDArray[np.intp], gains: Vector) -> Vector:
    """Return nDCG at every cut-off from 1 to n."""
    discount = np.log2(np.arange(2, len(gains) + 2))
    ideal = (np.sort(gains)[::-1] / discount).cumsum()
    with np.errstate(invalid="ignore"):
        result: Vector = (gains[order] / discount).cumsum() / ideal
    return result


def _among_first(leading: Vector, other: Vector, order: NDArray[np.intp], sizes: NDArray[np.intp]) -> Matrix:
    """Return rho and tau-b among the first networks of a descending order, for ascending sizes: `(2, sizes)`.

    Ranks come from counting, so nothing is sorted again. The pairs of one size are among those of the next size.
    """
    leader, y = -leading[order], np.unique(other[order], return_inverse=True)[1]
    first, last = (np.searchsorted(leader, leader, side=side) for side in ("left", "right"))  # of equal leaders
    small_first, small_y = (ranks.astype(np.uint16 if len(y) < 2**16 else np.int64) for ranks in (first, y))  # quicker
    counts, below = np.zeros((2, int(y.max()) + 1), dtype=np.intp)
    # Sums over the first networks; a term is final when all networks with the same leading value are among the first.
    edges = (first + last).astype(np.float64)
    ties = np.insert((last - first).cumsum(), 0, 0), np.insert(((last - first) ** 2).cumsum(), 0, 0)
    concordance = start = 0
    result = np.full((2, len(sizes)), np.nan)
    for column, end in enumerate(sizes.tolist()):
        if end > start:
            # The leading side is descending: a later network is below the earlier ones, or tied with the last of them.
            new = slice(start, end)
            concordance -= int(above(y[new], counts, below).sum())
            if first[start] < start:
                equal = np.bincount(y[first[start] : start], minlength=len(counts))
                concordance += int(above(y[start : min(end, last[start])], equal, equal.cumsum()).sum())
            falls, own = np.greater.outer(small_first[new], small_first[new]), small_y[new]
            concordance += int(np.count_nonzero(falls & np.less.outer(own, own)))
            concordance -= int(np.count_nonzero(falls & np.greater.outer(own, own)))
            np.add.at(counts, y[new], 1)
            counts.cumsum(out=below)
            start = end
        # The networks from `whole` on are equal, and perhaps not all of their equals are among the first.
        whole = int(first[end - 1])
        part = end - whole
        equals = counts[y[:end]]
        # By how many more of the first networks each is above than below.
        h = (2 * below[y[:end]] - equals - end).astype(np.float64)
        product = -(edges[:whole] @ h[:whole] + (whole + end) * h[whole:].sum())
        squares = float(end**3 - ties[1][whole] - part**3) / 3 * float(h @ h)
        if end > 2 and squares > 0:
            untied = float(end**2 - ties[0][whole] - part**2) * float(end**2 - equals.sum())
            result[:, column] = product / math.sqrt(squares), 2 * concordance / math.sqrt(untied)
    return result
