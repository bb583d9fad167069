"""Differences between the coefficients of proxies on the same resamples, their p-values, and Holm's correction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .bootstrap import interval
from .ranks import Matrix, Vector


@dataclass(frozen=True)
class Difference:
    """The coefficient of one proxy less that of another proxy, on the same resamples.

    Attributes:
        first: Index of the first proxy.
        second: Index of the second proxy.
        difference: Coefficient of the first proxy less that of the second.
        low: Lower end of the 95 % percentile interval of the difference.
        high: Upper end of this interval.
        p: Two-sided p-value from the percentiles: the interval that just reaches 0 has level 1 - p. It is at least
            2/(resamples + 1), which no correction for many pairs survives.
        p_normal: Two-sided p-value of a normal distribution with the standard deviation of the resampled differences.
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


def differences(values: Vector, drawn: Matrix) -> list[Difference]:
    """Compare every pair of proxies by a coefficient, paired over resamples.

    Each coefficient is over the networks that its proxy scored. To compare two proxies on their common networks, set
    the scores of the other networks to NaN before. Resamples in which one of the two is NaN are left out. A pair
    without any resample is NaN, and counts in Holm's correction.

    Args:
        values: `(proxies,)`, the coefficient of each proxy.
        drawn: `(proxies, resamples)`, this coefficient of every resample; all proxies have the same resamples.

    Raises:
        ValueError: Shapes do not fit.
    """
    if values.ndim != 1 or drawn.ndim != 2 or len(drawn) != len(values):
        raise ValueError(f"differences: expected (p,) and (p, resamples), got {values.shape} and {drawn.shape}")
    pairs = [(a, b) for a in range(len(values)) for b in range(a + 1, len(values))]
    gaps = [float(values[a] - values[b]) for a, b in pairs]
    resampled = [d[~np.isnan(d)] for d in (drawn[a] - drawn[b] for a, b in pairs)]
    normal = np.asarray([_normal_p(gap, d) for gap, d in zip(gaps, resampled, strict=True)])
    rows = zip(pairs, gaps, resampled, normal.tolist(), holm(normal).tolist(), strict=True)
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


def _percentile_p(drawn: Vector) -> float:
    """Return twice the smaller tail beyond 0; the sample itself counts as one resample in both tails."""
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
