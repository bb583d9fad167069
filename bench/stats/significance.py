"""Differences between the coefficients of proxies on the same resamples, their p-values, and Holm's correction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from .bootstrap import interval
from .ranks import Matrix, Vector


@dataclass(frozen=True)
class Difference:
    """The coefficient of one proxy less that of another proxy, on the same resamples.

    Attributes:
        first: Coefficient of the first proxy.
        second: Coefficient of the second proxy.
        difference: `first` less `second`.
        low: Lower end of the 95 % percentile interval of the difference.
        high: Upper end of this interval.
        p: Two-sided p-value from the percentiles: the interval that just reaches 0 has level 1 - p. It is at least
            2/(resamples + 1), which no correction for many pairs survives.
        p_normal: Two-sided p-value of a normal distribution with the standard deviation of the resampled differences.
        p_holm: `p_normal` after Holm's correction over all pairs.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    p_normal: float
    p_holm: float


def differences(values: Matrix, drawn: Matrix) -> list[Difference]:
    """Compare pairs of proxies by a coefficient, paired over resamples; Holm's correction is over all pairs.

    To compare two proxies on their common networks, set the scores of the other networks to NaN before. Resamples in
    which a difference is NaN are left out. A pair without any resample is NaN, and counts in Holm's correction.

    Args:
        values: `(pairs, 2)`, the coefficients of both proxies.
        drawn: `(pairs, resamples)`, the difference of both coefficients in every resample.

    Raises:
        ValueError: Shapes do not fit.
    """
    if drawn.ndim != 2 or values.shape != (len(drawn), 2):
        raise ValueError(f"differences: expected (pairs, 2) and (pairs, resamples), got {values.shape}, {drawn.shape}")
    gaps = values[:, 0] - values[:, 1]
    resampled = [row[~np.isnan(row)] for row in drawn]
    normal = np.asarray([_normal_p(gap, row) for gap, row in zip(gaps.tolist(), resampled, strict=True)])
    rows = zip(*values.T.tolist(), gaps.tolist(), resampled, normal.tolist(), holm(normal).tolist(), strict=True)
    return [Difference(a, b, gap, *interval(d), _percentile_p(d), p, adjusted) for a, b, gap, d, p, adjusted in rows]


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
    return float(2 * ndtr(-abs(gap) / deviation))
