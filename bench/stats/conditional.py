"""What a correlation is made of: size, groups, other proxies, and the noise of the accuracies themselves.

A score that only counts convolutions correlates with accuracy as well. So every correlation here is set against one
under a condition, on the same networks and the same resamples: given the size, within groups of equal size, among one
network of every class of equals, among networks without unreachable operations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .bootstrap import Small, bootstrap, by_network
from .coefficients import Matrix, Vector, finite_columns, grades, interval, kendall, mean_over_seeds, spearman, top

_Matrices = tuple[NDArray[np.float64], NDArray[np.float64]]

#: What is less than this share of the variance is round-off.
_ROUND_OFF = 1e-12


@dataclass(frozen=True)
class Conditional:
    """Both coefficients under a condition: means over seeds, with 95 % percentile intervals over architectures.

    Attributes:
        n: Networks behind it.
        rho: Spearman, with `rho_low` and `rho_high`.
        tau: Kendall's tau-b, with `tau_low` and `tau_high`.
        rho_sign_change: rho has the other sign than without the condition, and its interval excludes 0.
        tau_sign_change: The same of tau.
    """

    n: int
    rho: float
    rho_low: float
    rho_high: float
    tau: float
    tau_low: float
    tau_high: float
    rho_sign_change: bool
    tau_sign_change: bool


class Overall(Protocol):
    """What has both coefficients: `Correlation`, `Coefficients`."""

    @property
    def rho(self) -> float:
        """Spearman."""

    @property
    def tau(self) -> float:
        """Kendall's tau-b."""


def sign_change(overall: float, value: float, low: float, high: float) -> bool:
    """Return whether a value has the other sign than overall, and its interval excludes 0; False if any is NaN."""
    return overall * value < 0 and (low > 0 or high < 0)


def given(scores: Matrix, truth: Vector, covariates: Vector | Matrix, weights: Matrix, overall: Overall) -> Conditional:
    r"""Return partial coefficients: what scores and accuracies share beyond what both share with the covariates.

    $$r_{xy|z} = \frac{r_{xy} - r_{xz} r_{yz}}{\sqrt{(1 - r_{xz}^2)(1 - r_{yz}^2)}}$$

    with Spearman's rho for r, or Kendall's tau-b (Kendall, 1942); several covariates are taken out one after the other,
    which for rho is the correlation of what linear regression of the ranks leaves. NaN where a side follows from the
    covariates. Partial tau need not vanish where scores and accuracies are independent given z, so read it beside rho.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        covariates: `(n,)` or `(n, covariates)`; networks with one that is not finite are left out.
        weights: `(resamples, n)`; without resamples there are no intervals, and no change of sign is found.
        overall: The coefficients without the condition.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    conditions = covariates[:, None] if covariates.ndim == 1 else covariates
    if conditions.ndim != 2 or len(conditions) != len(truth):
        raise ValueError(f"covariates: expected ({len(truth)},) or ({len(truth)}, some), got {covariates.shape}")
    known = np.isfinite(conditions).all(1)
    small = by_network(weights, len(truth))[known]
    scores, truth, conditions = scores[known], truth[known], conditions[known]
    fixed: dict[bytes, _Matrices] = {}  # what seeds with the same finite scores have in common
    held, drawn = [], []
    for x, y, keep in finite_columns(scores, truth):
        if keep.tobytes() not in fixed:
            fixed[keep.tobytes()] = _matrices([y, *conditions[keep].T], small[keep])
        value, values = _matrices([x, y, *conditions[keep].T], small[keep], fixed[keep.tobytes()])
        held.append(partial(value))
        drawn.append(partial(values))
    n = int(np.isfinite(scores).any(1).sum())
    return _conditional(n, overall, np.asarray(held), np.asarray(drawn))


def partial(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficient of the first two variables given all others; NaN where one of them follows from these.

    Args:
        matrices: `(..., variables, variables)`, coefficients of two or more variables.
    """
    rest = matrices
    while rest.shape[-1] > 2:
        last, rest = rest[..., :-1, -1], rest[..., :-1, :-1]
        free = 1 - last**2
        free = np.where(free > _ROUND_OFF, free, np.nan)
        rest = (rest - last[..., :, None] * last[..., None, :]) / np.sqrt(free[..., :, None] * free[..., None, :])
    return np.asarray(np.clip(rest[..., 0, 1], -1, 1))


@dataclass(frozen=True)
class Group:
    """Both coefficients within one group: means over seeds.

    Attributes:
        value: What its networks have in common.
        n: Its networks with a finite score of any seed.
        rho: Spearman; NaN for fewer than three networks or a constant side.
        tau: Kendall's tau-b.
    """

    value: Any
    n: int
    rho: float
    tau: float


def within(
    scores: Matrix, truth: Vector, labels: NDArray[Any], weights: Matrix, overall: Overall
) -> tuple[Conditional, list[Group]]:
    r"""Return the coefficients within groups, pooled by pairs of networks, and those of every group, by label.

    $$\frac{\sum_g \binom{n_g}{2} r_g}{\sum_g \binom{n_g}{2}}$$

    over the groups that have a coefficient; n counts the networks of these. In a resample, n_g is the number of
    networks drawn.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        labels: `(n,)`, one for every network: the number of its convolutions, for example.
        weights: `(resamples, n)`; without resamples there are no intervals, and no change of sign is found.
        overall: The coefficients without the condition.

    Raises:
        ValueError: Shapes do not fit, an accuracy is not finite, or a label is NaN.
    """
    small = by_network(weights, len(truth))
    finite = np.stack([keep for _, _, keep in finite_columns(scores, truth)])
    members = _members(labels, len(truth))
    seeds, count = len(finite), len(members)
    values, draws = np.full((count, seeds, 2), np.nan), np.full((count, seeds, 2, len(weights)), np.nan)
    pairs, drawn_pairs = np.zeros((count, seeds, 1)), np.zeros((count, seeds, 1, len(weights)))
    used = np.zeros(len(truth), dtype=bool)
    for g, (_, rows) in enumerate(members):
        for s, column in enumerate(scores.T):
            keep = rows[finite[s, rows]]
            values[g, s] = _both(column[keep], truth[keep])
            if not np.isnan(values[g, s]).all():
                used[keep] = True
                pairs[g, s] = _pairs(len(keep))
                draws[g, s] = _drawn(column[keep], truth[keep], small[keep])
                drawn_pairs[g, s] = _pairs(small[keep].sum(0, dtype=np.float64))
    conditional = _conditional(int(used.sum()), overall, _pooled(values, pairs), _pooled(draws, drawn_pairs))
    return conditional, [
        Group(value, int(finite[:, rows].any(0).sum()), *map(float, mean_over_seeds(own)))
        for (value, rows), own in zip(members, values, strict=True)
    ]


def among(scores: Matrix, truth: Vector, keep: NDArray[np.bool_], weights: Matrix, overall: Overall) -> Conditional:
    """Return the coefficients among some of the networks: without unreachable operations, or one of every class.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        keep: `(n,)`, which networks.
        weights: `(resamples, n)`; without resamples there are no intervals, and no change of sign is found.
        overall: The coefficients without the condition.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    if keep.shape != truth.shape or keep.dtype != np.bool_:
        raise ValueError(f"keep: expected ({len(truth)},) of bool, got {keep.shape} of {keep.dtype}")
    small = by_network(weights, len(truth))[keep]
    held, drawn = [], []
    for x, y, finite in finite_columns(scores[keep], truth[keep]):
        held.append(_both(x, y))
        drawn.append(_drawn(x, y, small[finite]))
    n = int(np.isfinite(scores[keep]).any(1).sum())
    return _conditional(n, overall, np.asarray(held), np.asarray(drawn))


def representatives(classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which networks are the first of their class, of isomorphic networks for example.

    Args:
        classes: `(n,)`, one label for every network.
    """
    keep = np.zeros(len(classes), dtype=bool)
    keep[np.unique(classes, return_index=True)[1]] = True
    return keep


@dataclass(frozen=True)
class Agreement:
    """How alike columns rank: matrices `(columns, columns)`.

    Attributes:
        n: Networks behind it: those that are finite in every column.
        rho: Spearman; NaN for fewer than three networks and beside a constant column.
        tau: Kendall's tau-b.
    """

    n: int
    rho: Matrix
    tau: Matrix


def agreement(columns: Matrix) -> Agreement:
    """Correlate every two columns: scores of several proxies, seeds, batch sizes or data sets, or accuracies.

    Args:
        columns: `(n, columns)`; networks that are not finite in every column are left out.

    Raises:
        ValueError: There are no columns.
    """
    if columns.ndim != 2 or not columns.shape[1]:
        raise ValueError(f"columns: expected (n, columns), got {columns.shape}")
    common = columns[np.isfinite(columns).all(1)]
    (rho, tau), _ = _matrices(list(common.T), np.empty((len(common), 0), dtype=np.float32))
    for matrix in (rho, tau):
        np.fill_diagonal(matrix, [1.0 if len(c) > 2 and c.min() < c.max() else math.nan for c in common.T])
    return Agreement(len(common), rho, tau)


@dataclass(frozen=True)
class Ceiling:
    """What the noise of the accuracies leaves for a proxy to attain.

    Attributes:
        n: Networks with at least two runs, from which the noise is known.
        runs: How many runs an accuracy is the mean of: the harmonic mean over networks.
        single: Mean Spearman between two runs.
        reliability: Of the mean of all runs.
        rho: The highest rho that a score may be expected to attain, with `rho_low` and `rho_high`.
    """

    n: int
    runs: float
    single: float
    reliability: float
    rho: float
    rho_low: float
    rho_high: float


def ceiling(runs: Matrix, weights: Matrix, share: float | None = None) -> Ceiling:
    r"""Estimate the ceiling that the noise of training sets on rho, with a percentile interval over architectures.

    $$\rho_{max} = \sqrt{R}, \quad R = \frac{k \bar r}{1 + (k - 1) \bar r}$$

    with r the mean Spearman between two runs, k the runs behind an accuracy, and R their reliability (Spearman, 1904
    and 1910; Brown, 1910). This assumes that runs differ by noise that depends neither on the network nor on the
    other runs, and holds for ranks approximately. A mean r below 0 is taken as 0.

    Args:
        runs: `(n, runs)`, accuracies of single runs, NaN where there are fewer.
        weights: `(resamples, n)`; without resamples there is no interval.
        share: Estimate it inside this share of the most accurate networks. The share is chosen by the runs other than
            the two compared, as noise that has chosen networks is no longer independent of them; so it takes three
            runs. Among networks chosen by the very accuracies that a score is compared with, less is attainable.

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
                drawn.append(_drawn(x, y, small[rows])[0])
                used[rows] = True
    counts = known.sum(1)[used if share is not None else known.any(1)]
    k = float(len(counts) / (1 / counts).sum()) if len(counts) else math.nan
    single = mean_over_seeds(np.asarray(values))
    reliability = _prophecy(single, k)
    low, high = interval(np.sqrt(_prophecy(mean_over_seeds(np.asarray(drawn)), k)))
    return Ceiling(int(used.sum()), k, float(single), float(reliability), math.sqrt(reliability), low, high)


def _chosen(others: Matrix, rows: NDArray[np.intp], share: float) -> NDArray[np.intp]:
    """Return those of some networks that are the most accurate by other runs."""
    known = ~np.isnan(others[rows])
    rows, known = rows[known.any(1)], known[known.any(1)]
    return rows[top(np.where(known, others[rows], 0).sum(1) / known.sum(1), share)]


def _prophecy(single: Vector, k: float) -> Vector:
    r = np.maximum(single, 0)
    result: Vector = k * r / (1 + (k - 1) * r)
    return result


def _both(x: Vector, y: Vector) -> tuple[float, float]:
    return spearman(x, y), kendall(x, y)


def _drawn(x: Vector, y: Vector, weights: Small) -> Matrix:
    """Return rho and tau of every resample `(2, resamples)`, NaN among fewer than three networks."""
    if len(x) < 3:
        return np.full((2, weights.shape[1]), np.nan)
    return np.asarray(bootstrap(x, y, weights))


def _matrices(columns: list[Vector], weights: Small, rest: _Matrices | None = None) -> _Matrices:
    """Return rho and tau of every two columns, `(2, columns, columns)` and `(2, resamples, columns, columns)`.

    Only the first row and column is worked out if the rest is known; the diagonals are left NaN.
    """
    count, n = len(columns), len(columns[0])
    value = np.full((2, count, count), np.nan)
    values = np.full((2, weights.shape[1], count, count), np.nan)
    if n < 3:
        return value, values
    if rest:
        value[:, 1:, 1:], values[..., 1:, 1:] = rest
    centred = [grades(column) for column in columns]
    # SciPy sorts numbers of 16 bits in half the time.
    ranks: list[Any] = [(g + n).astype(np.uint16 if n < 2**15 else np.intp) for g in centred]
    for a in range(1 if rest else count):
        for b in range(a + 1, count):
            squares = float(centred[a] @ centred[a]) * float(centred[b] @ centred[b])
            if squares:
                rho = float(centred[a] @ centred[b]) / math.sqrt(squares)
                value[:, a, b] = value[:, b, a] = rho, kendall(ranks[a], ranks[b])
            values[..., a, b] = values[..., b, a] = bootstrap(columns[a], columns[b], weights)
    return value, values


def _members(labels: NDArray[Any], n: int) -> list[tuple[Any, NDArray[np.intp]]]:
    if labels.shape != (n,):
        raise ValueError(f"labels: expected ({n},), got {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("labels: expected one for every network, got NaN")
    values, inverse = np.unique(labels, return_inverse=True)
    rows = np.split(np.argsort(inverse, kind="stable"), np.bincount(inverse).cumsum()[:-1])
    return list(zip(values.tolist(), rows, strict=True)) if n else []


def _pairs(n: Any) -> Any:
    return n * (n - 1) / 2


def _pooled(values: NDArray[np.float64], pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over the first axis, weighted by pairs, of what is not NaN; NaN without any."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        result: NDArray[np.float64] = np.where(known, values * pairs, 0).sum(0) / (known * pairs).sum(0)
    return result


def _conditional(n: int, overall: Overall, held: Matrix, drawn: NDArray[np.float64]) -> Conditional:
    """Average over seeds: held is `(seeds, 2)`, drawn is `(seeds, 2, resamples)`."""
    rho, tau = map(float, mean_over_seeds(held))
    rhos, taus = map(interval, mean_over_seeds(drawn))
    changes = sign_change(overall.rho, rho, *rhos), sign_change(overall.tau, tau, *taus)
    return Conditional(n, rho, *rhos, tau, *taus, *changes)
