"""Rank statistics: SciPy's coefficients, a bootstrap over architectures, and how far proxies differ on it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .bootstrap import above, bootstrap, by_network, concordance

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def kendall(scores: Vector, truth: Vector) -> float:
    """Return Kendall's tau-b, signed; NaN for fewer than three values, which say nothing, or a constant side.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if _silent(scores, truth):
        return math.nan
    return float(stats.kendalltau(scores, truth).statistic)


def spearman(scores: Vector, truth: Vector) -> float:
    r"""Return Spearman's rho, signed; NaN for fewer than three values, which say nothing, or a constant side.

    $$\frac{\sum_i g_i h_i}{\sqrt{\sum_i g_i^2 \sum_i h_i^2}}$$

    with g how many more values a score is above than below, which is 2 rank - n - 1, and h the same of accuracies: sums
    of whole numbers, so that every machine has the same last digit. SciPy's `spearmanr` differs by round-off.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if _silent(scores, truth):
        return math.nan
    g, h = grades(scores), grades(truth)
    return float(g @ h / math.sqrt((g @ g) * (h @ h)))


def pearson(scores: Vector, truth: Vector) -> float:
    """Return Pearson's r; NaN for fewer than three values or a side that is constant to round-off.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if _silent(scores, truth):
        return math.nan
    x, y = _unit(scores), _unit(truth)
    return float(np.clip(x @ y, -1, 1))


def weighted_kendall(scores: Vector, truth: Vector, *, higher_is_better: bool = True) -> float:
    r"""Return the weighted tau (Vigna, 2015): pairs count 1/(r + 1) + 1/(s + 1) for their ranks r and s from 0.

    $$\frac{\sum_i v_i c_i}{\sqrt{\sum_i v_i u_i \sum_i v_i u'_i}}, \quad v_i = \frac{1}{r_i + 1}$$

    with c the concordant less the discordant pairs of a network, u and u' its pairs of different scores or accuracies.
    It is the mean of two, with the ranks by scores and by accuracies, ties of one ordered by the other, so the top of
    either weighs most. SciPy's `weightedtau` is the same, three times slower. NaN as for `kendall`.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        higher_is_better: Which end of the scores is their top; the coefficient keeps its sign.

    Raises:
        ValueError: Lengths differ, or a value is not finite.
    """
    if _silent(scores, truth):
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


def grades(values: Vector) -> Vector:
    """Return how many more values each is above than below `(n,)`: mid-ranks less their mean, twice."""
    ranks, counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
    return above(ranks, counts, counts.cumsum()).astype(np.float64)


def tied(values: Vector) -> float:
    """Return the share of pairs of values that are equal; NaN for fewer than two values."""
    if len(values) < 2:
        return math.nan
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum() / (len(values) * (len(values) - 1)))


@dataclass(frozen=True)
class Coefficients:
    """Every coefficient of scores with accuracies, and what limits them; means over seeds.

    Attributes:
        n: Networks behind them: those with a finite score of any seed.
        coverage: Share of (network, seed) pairs with a finite score.
        ties: Share of pairs of networks with equal scores, which no coefficient can order.
        rho: Spearman.
        tau: Kendall's tau-b.
        pearson: Pearson.
        weighted_tau: Vigna's weighted tau.
    """

    n: int
    coverage: float
    ties: float
    rho: float
    tau: float
    pearson: float
    weighted_tau: float


def coefficients(scores: Matrix, truth: Vector, *, higher_is_better: bool = True) -> Coefficients:
    """Return every coefficient, mean over seeds; scores that are not finite are left out, per seed.

    Args:
        scores: `(n, seeds)`.
        truth: `(n,)`, finite.
        higher_is_better: Which end of the scores is their top.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    rows = [
        (
            tied(x),
            spearman(x, y),
            kendall(x, y),
            pearson(x, y),
            weighted_kendall(x, y, higher_is_better=higher_is_better),
        )
        for x, y, _ in finite_columns(scores, truth)
    ]
    known = np.isfinite(scores)
    coverage = float(known.mean()) if known.size else math.nan
    return Coefficients(int(known.any(1).sum()), coverage, *map(float, mean_over_seeds(np.asarray(rows))))


def resamples(n: int, count: int = 1000, seed: int = 0) -> Matrix:
    """Draw bootstrap resamples as multiplicities `(count, n)`; each row sums to n."""
    # RandomState's stream is frozen for good; the newer generators may change with numpy.
    draw = np.random.RandomState(seed).randint(n, size=(count, n)) if n else np.zeros((count, 0), dtype=np.intp)
    weights = np.empty((count, n))
    for row, drawn in zip(weights, draw, strict=True):
        row[:] = np.bincount(drawn, minlength=n)
    return weights


def bootstrap_kendall(scores: Vector, truth: Vector, weights: Matrix) -> Vector:
    """Return tau-b of every resample.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, multiplicities.

    Returns:
        `(resamples,)`, NaN where a resample is constant.

    Raises:
        ValueError: Shapes do not fit, or a value is not finite.
    """
    _silent(scores, truth)
    return bootstrap(scores, truth, by_network(weights, len(truth)))[1]


def bootstrap_spearman(scores: Vector, truth: Vector, weights: Matrix) -> Vector:
    """Return rho of every resample.

    Args:
        scores: `(n,)`, finite.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, multiplicities.

    Returns:
        `(resamples,)`, NaN where a resample is constant.

    Raises:
        ValueError: Shapes do not fit, or a value is not finite.
    """
    _silent(scores, truth)
    return bootstrap(scores, truth, by_network(weights, len(truth)))[0]


def interval(values: Vector, level: float = 0.95) -> tuple[float, float]:
    """Return the percentile interval of bootstrap values, NaN left out; NaN if there are none."""
    known = values[~np.isnan(values)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class Replicates:
    """Both coefficients of every resample, `(resamples,)`: means over seeds."""

    rho: Vector
    tau: Vector


def replicate(scores: Matrix, truth: Vector, weights: Matrix) -> Replicates:
    """Return rho and tau of every resample, an architecture with all its seeds being one cluster.

    Scores that are not finite are left out, per seed, and so are seeds with fewer than three finite scores. NumPy
    works outside of Python's lock, so several proxies may be replicated in threads.

    Args:
        scores: `(n, seeds)`.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, as `resamples` draws them.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    small = by_network(weights, len(truth))
    pairs = [
        bootstrap(x, y, small if keep.all() else small[keep])
        for x, y, keep in finite_columns(scores, truth)
        if len(x) > 2
    ]
    rho, tau = mean_over_seeds(np.asarray(pairs or np.full((1, 2, len(weights)), np.nan)))
    return Replicates(rho, tau)


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


def correlate(
    scores: Matrix,
    truth: Vector,
    weights: Matrix,
    *,
    higher_is_better: bool = True,
    replicates: Replicates | None = None,
) -> Correlation:
    """Correlate scores with accuracies: the mean over seeds, an architecture with all its seeds being one cluster.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, as `resamples` draws them; without resamples there are no intervals.
        higher_is_better: Which end of the scores is their top; coefficients keep their sign.
        replicates: What `replicate` gives for the same, if it is known already.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    rows = [_one_seed(x, y, higher_is_better) for x, y, _ in finite_columns(scores, truth)]
    rho, tau, *top = map(float, mean_over_seeds(np.asarray(rows)))
    drawn = replicate(scores, truth, weights) if replicates is None else replicates
    n = int(np.isfinite(scores).any(1).sum())
    return Correlation(n, rho, *interval(drawn.rho), tau, *interval(drawn.tau), *top)


@dataclass(frozen=True)
class Difference:
    """By how much a coefficient of one proxy exceeds that of another, on the same resamples.

    Attributes:
        first: Index of the one.
        second: Index of the other.
        difference: First less second.
        low: Of the 95 % percentile interval.
        high: Of the same.
        p: Two-sided, from the percentiles: the interval that just reaches 0 has level 1 - p. At least
            2/(resamples + 1), which no correction for many pairs survives.
        p_normal: Two-sided, of a normal distribution with the standard deviation of the resampled differences.
        p_holm: `p_normal` after Holm's correction over all pairs.
    """

    first: int
    second: int
    difference: float
    low: float
    high: float
    p: float
    p_normal: float
    p_holm: float


def differences(values: Vector, replicates: Matrix) -> list[Difference]:
    """Compare every pair of proxies by a coefficient, paired over resamples.

    Every coefficient is of the networks that its proxy scored; to compare on common networks, set the scores of others
    to NaN before. Resamples in which either is NaN are left out; a pair that remains undefined is NaN, and counts in
    Holm's correction.

    Args:
        values: `(proxies,)`, one coefficient of each.
        replicates: `(proxies, resamples)`, the same coefficient of every resample, all of the same resamples.

    Raises:
        ValueError: Shapes do not fit.
    """
    if values.ndim != 1 or replicates.ndim != 2 or len(replicates) != len(values):
        raise ValueError(f"differences: expected (p,) and (p, resamples), got {values.shape} and {replicates.shape}")
    pairs = [(a, b) for a in range(len(values)) for b in range(a + 1, len(values))]
    gaps = [float(values[a] - values[b]) for a, b in pairs]
    drawn = [d[~np.isnan(d)] for d in (replicates[a] - replicates[b] for a, b in pairs)]
    normal = np.asarray([_normal_p(gap, d) for gap, d in zip(gaps, drawn, strict=True)])
    rows = zip(pairs, gaps, drawn, normal.tolist(), holm(normal).tolist(), strict=True)
    return [Difference(*pair, gap, *interval(d), _percentile_p(d), p, corrected) for pair, gap, d, p, corrected in rows]


def holm(p: Vector) -> Vector:
    """Return p-values after Holm's (1979) step-down correction, at most 1; NaN stays NaN and counts as a test.

    Args:
        p: `(tests,)`.
    """
    order = np.argsort(p)  # NaN comes last
    steps = np.minimum(1, p[order] * np.arange(len(p), 0, -1))
    known = ~np.isnan(steps)
    steps[known] = np.maximum.accumulate(steps[known])
    result: Vector = np.empty(len(p))
    result[order] = steps
    return result


def size(n: int, share: float) -> int:
    """Return how many of n networks a share is: rounded up, at least one."""
    # 0.07 * 100 is a little more than 7 and means 7.
    return max(1, math.ceil(share * n - 1e-9))


def top(values: Vector, share: float = 0.1) -> NDArray[np.intp]:
    """Return the indices of the highest share of values, at least one; ties go to the lower index."""
    return np.argsort(-values, kind="stable")[: size(len(values), share)]


def finite_columns(scores: Matrix, truth: Vector) -> Iterator[tuple[Vector, Vector, NDArray[np.bool_]]]:
    """Yield for every seed its finite scores, the accuracies of the same networks, and which networks they are.

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
            f"accuracies: expected finite ones, got {faulty} of {len(truth)} that are not: leave these out"
        )
    for column in scores.T:
        keep = np.isfinite(column)
        yield column[keep], truth[keep], keep


def mean_over_seeds(values: Matrix) -> Vector:
    """Return means over the first axis, NaN left out; NaN where there is nothing else."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        result: Vector = np.where(known, values, 0).sum(0) / known.sum(0)
    return result


def _silent(scores: Vector, truth: Vector) -> bool:
    """Return whether two vectors have no coefficient, once they are known to be vectors of finite numbers."""
    if scores.ndim != 1 or scores.shape != truth.shape:
        raise ValueError(f"coefficient: expected two vectors of one length, got {scores.shape} and {truth.shape}")
    if not (np.isfinite(scores).all() and np.isfinite(truth).all()):
        raise ValueError("coefficient: expected finite values, got NaN or infinity: leave these networks out")
    return len(scores) < 3 or bool(scores.min() == scores.max() or truth.min() == truth.max())


def _unit(values: Vector) -> Vector:
    """Return values less their mean, of length 1, or all NaN where they are constant to round-off."""
    scaled = values / np.abs(values).max()  # squares of huge or tiny values would leave the range of floats
    centred = scaled - scaled.mean()
    norm = float(np.linalg.norm(centred))
    result: Vector = centred / norm if norm > 1e-13 * np.linalg.norm(scaled) else np.full_like(centred, np.nan)
    return result


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


def _percentile_p(drawn: Vector) -> float:
    """Return twice the smaller tail beyond 0, the sample itself counted as a resample on either side."""
    if not len(drawn):
        return math.nan
    tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
    return min(1.0, 2 * (1 + float(tail)) / (1 + len(drawn)))


def _normal_p(gap: float, drawn: Vector) -> float:
    if len(drawn) < 2 or math.isnan(gap):
        return math.nan
    deviation = float(drawn.std(ddof=1))
    if not deviation:
        return 1.0 if gap == 0 else 0.0
    return float(2 * stats.norm.sf(abs(gap) / deviation))
