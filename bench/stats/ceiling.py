"""The ceiling of a correlation: the highest rho that the noise of the accuracies leaves for a proxy to reach."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bootstrap import bootstrap, by_network, interval
from .coefficients import mean_over_seeds, spearman
from .ranks import Matrix
from .top import top


@dataclass(frozen=True)
class Ceiling:
    """The highest rho that a proxy can reach, because accuracies of several training runs differ by noise.

    Attributes:
        n: Number of networks with at least two runs, from which the noise is known.
        runs: Number of runs that an accuracy is the mean of: the harmonic mean over networks.
        single: Mean Spearman between two runs.
        reliability: Reliability of the mean of all runs.
        rho: Highest rho that a score is expected to reach, with the interval `rho_low` to `rho_high`.
    """

    n: int
    runs: float
    single: float
    reliability: float
    rho: float
    rho_low: float
    rho_high: float


def ceiling(runs: Matrix, weights: Matrix, share: float | None = None) -> Ceiling:
    r"""Estimate the ceiling that the noise of training sets on rho, with a percentile interval over networks.

    $$\rho_{max} = \sqrt{R}, \quad R = \frac{k \bar r}{1 + (k - 1) \bar r}$$

    Here r is the mean Spearman between two runs, k is the number of runs that an accuracy is the mean of, and R is
    their reliability (Spearman, 1904 and 1910; Brown, 1910). The formula assumes that runs differ by noise that depends
    neither on the network nor on the other runs. For ranks it holds approximately. A mean r below 0 is taken as 0.

    Args:
        runs: `(n, runs)`, accuracies of single runs, NaN where there are fewer.
        weights: `(resamples, n)`; without resamples there is no interval.
        share: Share of the most accurate networks to estimate the ceiling inside; None for all networks. The share is
            chosen by the runs other than the two compared, because noise that has chosen networks is not independent of
            them. So it takes three runs. Among networks chosen by the accuracies that a score is compared with, a score
            reaches less.

    Returns:
        NaN where no two runs have three networks in common.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is infinite.
    """
    if runs.ndim != 2 or np.isinf(runs).any():
        raise ValueError(f"runs: expected finite or NaN accuracies (n, runs), got {runs.shape}")
    small = by_network(weights, len(runs))
    known = ~np.isnan(runs)
    values, drawn = [math.nan], [np.full(len(weights), np.nan)]
    used = np.zeros(len(runs), dtype=bool)
    for a in range(runs.shape[1]):
        for b in range(a + 1, runs.shape[1]):
            rows = np.flatnonzero(known[:, a] & known[:, b])
            if share is not None:
                rows = _chosen(np.delete(runs, [a, b], axis=1), rows, share)
            x, y = runs[rows, a], runs[rows, b]
            value = spearman(x, y)
            if not math.isnan(value):
                values.append(value)
                drawn.append(bootstrap(x, y, small[rows])[0])
                used[rows] = True
    counts = known.sum(1)[used if share is not None else known.any(1)]
    k = float(len(counts) / (1 / counts).sum()) if len(counts) else math.nan
    single = mean_over_seeds(np.asarray(values))
    reliability = _prophecy(single, k)
    low, high = interval(np.sqrt(_prophecy(mean_over_seeds(np.asarray(drawn)), k)))
    return Ceiling(int(used.sum()), k, float(single), float(reliability), math.sqrt(reliability), low, high)


def _chosen(others: Matrix, rows: NDArray[np.intp], share: float) -> NDArray[np.intp]:
    """Return the networks among `rows` that are the most accurate by the other runs."""
    known = ~np.isnan(others[rows])
    rows, known = rows[known.any(1)], known[known.any(1)]
    return rows[top(np.where(known, others[rows], 0).sum(1) / known.sum(1), share)]


def _prophecy(single: NDArray[np.float64], k: float) -> NDArray[np.float64]:
    """Return the reliability of the mean of k runs, by the Spearman-Brown prophecy formula."""
    r = np.maximum(single, 0)
    result: NDArray[np.float64] = k * r / (1 + (k - 1) * r)
    return result
