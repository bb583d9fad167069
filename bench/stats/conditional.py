"""Coefficients under a condition: what is left of a correlation when the size of the networks is taken out.

A score that only counts convolutions correlates with accuracy too. So a correlation is compared with coefficients under
a condition, on the same networks and the same resamples: given the size, within groups of equal size, among one network
of every class, and among networks without unreachable operations. `agreement` correlates scores with other scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bootstrap import bootstrap, by_network, interval, replicates
from .coefficients import finite_columns, kendall, mean_over_seeds, rho_and_tau
from .correlation import Correlation, SeedCorrelations
from .ranks import Matrix, Small, Vector, grades

_Matrices = tuple[NDArray[np.float64], NDArray[np.float64]]

#: A variance below this share of the whole variance is round-off.
_ROUND_OFF = 1e-12


@dataclass(frozen=True)
class Conditional:
    """Both coefficients under a condition: means over seeds, with 95 % percentile intervals over architectures.

    Attributes:
        n: Number of networks that the coefficients are over.
        rho: Spearman, with the interval `rho_low` to `rho_high`.
        tau: Kendall's tau-b, with the interval `tau_low` to `tau_high`.
        rho_sign_change: Whether rho has another sign than without the condition, and its interval excludes 0.
        tau_sign_change: Whether tau has another sign than without the condition, and its interval excludes 0.
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


def sign_change(overall: float, value: float, low: float, high: float) -> bool:
    """Return whether a value has another sign than overall and its interval excludes 0; False if one is NaN."""
    return overall * value < 0 and (low > 0 or high < 0)


def given(
    scores: Matrix,
    truth: Vector,
    covariates: Vector | Matrix,
    weights: Matrix,
    overall: Correlation,
    *,
    seeds: SeedCorrelations | None = None,
) -> Conditional:
    r"""Return partial coefficients: the correlation of scores and accuracies that the covariates do not explain.

    $$r_{xy|z} = \frac{r_{xy} - r_{xz} r_{yz}}{\sqrt{(1 - r_{xz}^2)(1 - r_{yz}^2)}}$$

    Here r is Spearman's rho, or Kendall's tau-b (Kendall, 1942). Several covariates are taken out one after the other.
    For rho this is the correlation of the residuals of a linear regression of the ranks. The result is NaN where the
    scores or the accuracies follow from the covariates. Partial tau can differ from 0 where scores and accuracies are
    independent given z, so read it beside rho.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        covariates: `(n,)` or `(n, covariates)`; networks with a covariate that is not finite are left out.
        weights: `(resamples, n)`; without resamples there are no intervals, and no change of sign is found.
        overall: Coefficients without the condition.
        seeds: Result of `correlate_seeds` for these scores, if it is known already.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    conditions = covariates[:, None] if covariates.ndim == 1 else covariates
    if conditions.ndim != 2 or len(conditions) != len(truth):
        raise ValueError(f"covariates: expected ({len(truth)},) or ({len(truth)}, some), got {covariates.shape}")
    known = np.isfinite(conditions).all(1)
    small = by_network(weights, len(truth))[known]
    scores, truth, conditions = scores[known], truth[known], conditions[known]
    rest: dict[bytes, _Matrices] = {}  # shared by the seeds that have finite scores of the same networks
    held, drawn = [], []
    for seed, (x, y, keep) in enumerate(finite_columns(scores, truth)):
        if keep.tobytes() not in rest:
            rest[keep.tobytes()] = _matrices([y, *conditions[keep].T], small[keep])
        first = seeds.both(seed) if seeds is not None and known.all() else None
        value, values = _matrices([x, y, *conditions[keep].T], small[keep], rest[keep.tobytes()], first)
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
        value: Label that the networks of the group share.
        n: Number of networks of the group with a finite score of any seed.
        rho: Spearman; NaN for fewer than three networks or a constant side.
        tau: Kendall's tau-b; NaN as for `rho`.
    """

    value: Any
    n: int
    rho: float
    tau: float


def within(
    scores: Matrix, truth: Vector, labels: NDArray[Any], weights: Matrix, overall: Correlation
) -> tuple[Conditional, list[Group]]:
    r"""Return the coefficients within groups, pooled by pairs of networks, and those of every group, by label.

    $$\frac{\sum_g \binom{n_g}{2} r_g}{\sum_g \binom{n_g}{2}}$$

    The sums are over the groups that have a coefficient, and n counts the networks of these groups. In a resample, n_g
    is the number of networks drawn.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        labels: `(n,)`, a label for every network, for example its number of convolutions.
        weights: `(resamples, n)`; without resamples there are no intervals, and no change of sign is found.
        overall: Coefficients without the condition.

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
            values[g, s] = rho_and_tau(column[keep], truth[keep])
            if not np.isnan(values[g, s]).all():
                used[keep] = True
                pairs[g, s] = _pairs(len(keep))
                draws[g, s] = replicates(column[keep], truth[keep], small[keep])
                drawn_pairs[g, s] = _pairs(small[keep].sum(0, dtype=np.float64))
    conditional = _conditional(int(used.sum()), overall, _pooled(values, pairs), _pooled(draws, drawn_pairs))
    return conditional, [
        Group(value, int(finite[:, rows].any(0).sum()), *map(float, mean_over_seeds(own)))
        for (value, rows), own in zip(members, values, strict=True)
    ]


def among(scores: Matrix, truth: Vector, keep: NDArray[np.bool_], weights: Matrix, overall: Correlation) -> Conditional:
    """Return the coefficients among some of the networks, for example those without unreachable operations.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        keep: `(n,)`, True for the networks to keep.
        weights: `(resamples, n)`; without resamples there are no intervals, and no change of sign is found.
        overall: Coefficients without the condition.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    if keep.shape != truth.shape or keep.dtype != np.bool_:
        raise ValueError(f"keep: expected ({len(truth)},) of bool, got {keep.shape} of {keep.dtype}")
    small = by_network(weights, len(truth))[keep]
    held, drawn = [], []
    for x, y, finite in finite_columns(scores[keep], truth[keep]):
        held.append(rho_and_tau(x, y))
        drawn.append(replicates(x, y, small[finite]))
    n = int(np.isfinite(scores[keep]).any(1).sum())
    return _conditional(n, overall, np.asarray(held), np.asarray(drawn))


def representatives(classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which networks are the first of their class.

    Args:
        classes: `(n,)`, the label of the class of every network.
    """
    keep = np.zeros(len(classes), dtype=bool)
    keep[np.unique(classes, return_index=True)[1]] = True
    return keep


@dataclass(frozen=True)
class Agreement:
    """Coefficients of every two columns: matrices `(columns, columns)`.

    Attributes:
        n: Number of networks that are finite in every column.
        rho: Spearman; NaN for fewer than three networks and beside a constant column.
        tau: Kendall's tau-b; NaN as for `rho`.
    """

    n: int
    rho: Matrix
    tau: Matrix


def agreement(columns: Matrix) -> Agreement:
    """Correlate every two columns. A column holds the scores of a proxy, seed, batch size or data set, or accuracies.

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


def _matrices(
    columns: list[Vector], weights: Small, rest: _Matrices | None = None, first: _Matrices | None = None
) -> _Matrices:
    """Return rho and tau of every two columns, `(2, columns, columns)` and `(2, resamples, columns, columns)`.

    The diagonals are NaN.

    Args:
        columns: Values of the variables, each `(n,)`, finite.
        weights: `(n, resamples)`.
        rest: Result for all columns but the first, if it is known already.
        first: rho and tau of the first two columns, `(2,)` and `(2, resamples)`, if they are known already.
    """
    count, n = len(columns), len(columns[0])
    value = np.full((2, count, count), np.nan)
    values = np.full((2, weights.shape[1], count, count), np.nan)
    if n < 3:
        return value, values
    if rest:
        value[:, 1:, 1:], values[..., 1:, 1:] = rest
    if first:
        value[:, 0, 1], values[..., 0, 1] = first
        value[:, 1, 0], values[..., 1, 0] = first
    centred = [grades(column) for column in columns]
    # SciPy sorts numbers of 16 bits in half the time.
    ranks: list[Any] = [(g + n).astype(np.uint16 if n < 2**15 else np.intp) for g in centred]
    for a in range(1 if rest else count):
        for b in range(2 if first and a == 0 else a + 1, count):
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
    """Return the mean over the first axis of the values that are not NaN, weighted by pairs; NaN if all are NaN."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        result: NDArray[np.float64] = np.where(known, values * pairs, 0).sum(0) / (known * pairs).sum(0)
    return result


def _conditional(n: int, overall: Correlation, held: Matrix, drawn: NDArray[np.float64]) -> Conditional:
    """Return means over seeds of coefficients `(seeds, 2)` and of those of resamples `(seeds, 2, resamples)`."""
    rho, tau = map(float, mean_over_seeds(held))
    rhos, taus = map(interval, mean_over_seeds(drawn))
    changes = sign_change(overall.rho, rho, *rhos), sign_change(overall.tau, tau, *taus)
    return Conditional(n, rho, *rhos, tau, *taus, *changes)
