"""How well scores rank networks: the coefficients of every seed and resample, and their summary over seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bootstrap import bootstrap, by_network, interval
from .coefficients import finite_columns, mean_over_seeds, over_seeds, rho_and_tau
from .ranks import WHOLE, Matrix, Vector
from .top import among_top, inside, size


@dataclass(frozen=True)
class SeedCorrelations:
    """Both coefficients of every seed, signed, and those of every resample.

    Attributes:
        n: Number of finite scores of every seed `(seeds,)`.
        rho: Spearman `(seeds,)`; NaN for fewer than three networks or a constant side.
        tau: Kendall's tau-b `(seeds,)`; NaN as for `rho`.
        drawn_rho: Spearman of every resample `(seeds, resamples)`.
        drawn_tau: Kendall's tau-b of every resample `(seeds, resamples)`.
    """

    n: NDArray[np.intp]
    rho: Vector
    tau: Vector
    drawn_rho: Matrix
    drawn_tau: Matrix

    def both(self, seed: int) -> tuple[Vector, Matrix]:
        """Return rho and tau of a seed `(2,)`, and those of every resample `(2, resamples)`."""
        drawn = np.stack([self.drawn_rho[seed], self.drawn_tau[seed]])
        return np.asarray([self.rho[seed], self.tau[seed]]), drawn

    def interval(self, name: str) -> tuple[float, float]:
        """Return the 95 % percentile interval over networks of the mean over seeds of `rho` or `tau`."""
        return interval(mean_over_seeds(getattr(self, f"drawn_{name}")))


def correlate_seeds(scores: Matrix, truth: Vector, weights: Matrix) -> SeedCorrelations:
    """Correlate the scores of every seed with the accuracies, and those of every resample.

    A network with the scores of all its seeds is one cluster: every seed has the same resamples. NumPy works outside of
    Python's lock, so several proxies may be correlated in threads.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, from `resamples`.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    small = by_network(weights, len(truth))
    known: dict[bytes, tuple[int, float, float, Vector, Vector]] = {}  # a proxy without chance has equal seeds
    found = []
    for column, (x, y, keep) in zip(scores.T, finite_columns(scores, truth), strict=True):
        key = column.tobytes()
        if key not in known:
            drawn_rho, drawn_tau = bootstrap(x, y, small if keep.all() else small[keep])
            known[key] = len(x), *rho_and_tau(x, y), drawn_rho, drawn_tau
        found.append(known[key])
    return SeedCorrelations(*map(np.asarray, zip(*found, strict=True)))


@dataclass(frozen=True)
class Coefficients:
    """Both coefficients: means over seeds, with 95 % percentile intervals over networks.

    Attributes:
        n: Number of networks that the coefficients are over.
        rho: Spearman, with the interval `rho_low` to `rho_high`.
        tau: Kendall's tau-b, with the interval `tau_low` to `tau_high`.
    """

    n: int
    rho: float
    rho_low: float
    rho_high: float
    tau: float
    tau_low: float
    tau_high: float


@dataclass(frozen=True)
class Correlation(Coefficients):
    """How well scores rank: both coefficients, and the top of the ranking.

    A coefficient of the top is NaN if the top has fewer than ten networks. Its interval is over resamples of all
    networks, each with a top of its own.

    Attributes:
        rho_top_accuracy: Spearman among the 10 % most accurate networks.
        tau_top_accuracy: Kendall's tau-b among them, with its interval.
        rho_top_score: Spearman among the 10 % with the highest scores.
        tau_top_score: Kendall's tau-b among them, with its interval.
        top_overlap: Share of the 10 % most accurate networks that are among the 10 % with the highest scores.
    """

    rho_top_accuracy: float
    tau_top_accuracy: float
    tau_top_accuracy_low: float
    tau_top_accuracy_high: float
    rho_top_score: float
    tau_top_score: float
    tau_top_score_low: float
    tau_top_score_high: float
    top_overlap: float


def correlate(
    scores: Matrix,
    truth: Vector,
    weights: Matrix,
    *,
    higher_is_better: bool = True,
    seeds: SeedCorrelations | None = None,
) -> Correlation:
    """Correlate scores with accuracies: means over seeds.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, from `resamples`; without resamples there are no intervals.
        higher_is_better: Whether the highest scores are the top; coefficients keep their sign.
        seeds: Result of `correlate_seeds` for these scores, if it is known already.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    seeds = correlate_seeds(scores, truth, weights) if seeds is None else seeds
    rho, tau = map(float, mean_over_seeds(np.column_stack([seeds.rho, seeds.tau])))
    n = int(np.isfinite(scores).any(1).sum())
    sign = 1 if higher_is_better else -1
    # The last column has every network once, so it is the sample itself.
    small = np.concatenate([by_network(weights, len(truth)), np.ones((len(truth), 1), dtype=WHOLE)], axis=1)
    found = []
    for x, y, keep in finite_columns(scores, truth):
        own = small[keep]
        found.append(np.concatenate([among_top(leading, x, y, own) for leading in (y, sign * x)]))
    by_accuracy, by_score = (mean_over_seeds(np.stack(found)[:, rows]) for rows in (slice(0, 2), slice(2, 4)))
    intervals = [interval(taus[:-1]) for _, taus in (by_accuracy, by_score)]
    overlap = over_seeds(lambda x, y: (_overlap(sign * x, y),), scores, truth)
    return Correlation(
        n,
        rho,
        *seeds.interval("rho"),
        tau,
        *seeds.interval("tau"),
        float(by_accuracy[0, -1]),
        float(by_accuracy[1, -1]),
        *intervals[0],
        float(by_score[0, -1]),
        float(by_score[1, -1]),
        *intervals[1],
        float(overlap[0]),
    )


def _overlap(oriented: Vector, truth: Vector) -> float:
    """Return the share of the 10 % most accurate networks that are among the 10 % with the highest scores."""
    if not len(truth):
        return math.nan
    k = np.asarray([size(len(truth), 0.1)], dtype=np.float64)
    (a, x), (b, y) = inside(oriented, k), inside(truth, k)
    return float(a[:, 0].astype(np.float64) @ b[:, 0]) / float(x[0] * y[0] * k[0])
