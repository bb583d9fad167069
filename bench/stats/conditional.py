"""Coefficients under a condition: what is left of a correlation when the size of the networks is taken out.

A score that only counts convolutions correlates with accuracy too. So a correlation is compared with coefficients under
a condition, on the same networks and the same resamples: given the size, within groups of equal size, among one network
of every class, and among networks without unreachable operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bootstrap import bootstrap, by_network, interval
from .coefficients import finite_columns, mean_over_seeds, rho_and_tau
from .correlation import Coefficients, Correlation, SeedCorrelations
from .ranks import Matrix, Small, Vector

#: Rho and tau of accuracies and a covariate, and those of every resample, by the networks that they are over.
Rest = dict[bytes, tuple[Vector, Matrix]]
#: A variance below this share of the whole variance is round-off.
_ROUND_OFF = 1e-12


@dataclass(frozen=True)
class Conditional(Coefficients):
    """Both coefficients under a condition.

    Attributes:
        rho_sign_change: Whether rho has another sign than without the condition, and its interval excludes 0.
    """

    rho_sign_change: bool


def sign_change(overall: float, value: float, low: float, high: float) -> bool:
    """Return whether a value has another sign than overall and its interval excludes 0; False if one is NaN."""
    return overall * value < 0 and (low > 0 or high < 0)


def given(
    scores: Matrix,
    truth: Vector,
    covariate: Vector,
    weights: Matrix,
    overall: Correlation,
    *,
    seeds: SeedCorrelations | None = None,
    rest: Rest | None = None,
) -> Conditional:
    r"""Return partial coefficients: the correlation of scores and accuracies that the covariate does not explain.

    $$r_{xy|z} = \frac{r_{xy} - r_{xz} r_{yz}}{\sqrt{(1 - r_{xz}^2)(1 - r_{yz}^2)}}$$

    Here r is Spearman's rho, or Kendall's tau-b (Kendall, 1942). For rho this is the correlation of the residuals of a
    linear regression of the ranks. The result is NaN where the scores or the accuracies follow from the covariate.
    Partial tau can differ from 0 where scores and accuracies are independent given z, so read it beside rho.

    Args:
        scores: `(n, seeds)`; scores that are not finite are left out, per seed.
        truth: `(n,)`, finite.
        covariate: `(n,)`; networks with a covariate that is not finite are left out.
        weights: `(resamples, n)`; without resamples there are no intervals, and no change of sign is found.
        overall: Coefficients without the condition.
        seeds: Result of `correlate_seeds` for these scores, if it is known already.
        rest: Coefficients of accuracies and covariate, which calls with other scores and the same truth, covariate and
            weights share.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    if covariate.shape != (len(truth),):
        raise ValueError(f"covariate: expected ({len(truth)},), got {covariate.shape}")
    known = np.isfinite(covariate)
    small = by_network(weights, len(truth))[known]
    scores, truth, covariate = scores[known], truth[known], covariate[known]
    rest = {} if rest is None else rest
    held, drawn = [], []
    for seed, (x, y, keep) in enumerate(finite_columns(scores, truth)):
        z, w = covariate[keep], small[keep]
        if keep.tobytes() not in rest:
            rest[keep.tobytes()] = _both(y, z, w)
        xy = seeds.both(seed) if seeds is not None and known.all() else _both(x, y, w)
        value, values = map(partial, xy, _both(x, z, w), rest[keep.tobytes()])
        held.append(value)
        drawn.append(values)
    n = int(np.isfinite(scores).any(1).sum())
    return _conditional(n, overall, np.asarray(held), np.asarray(drawn))


def partial(xy: Matrix, xz: Matrix, yz: Matrix) -> Matrix:
    """Return coefficients of x and y given z, element by element; NaN where x or y follows from z."""
    free_x, free_y = (np.where(free > _ROUND_OFF, free, np.nan) for free in (1 - xz**2, 1 - yz**2))
    return np.asarray(np.clip((xy - xz * yz) / np.sqrt(free_x * free_y), -1, 1))


def _both(x: Vector, y: Vector, weights: Small) -> tuple[Vector, Matrix]:
    """Return rho and tau `(2,)`, and those of every resample `(2, resamples)`."""
    return np.asarray(rho_and_tau(x, y)), bootstrap(x, y, weights)


def within(scores: Matrix, truth: Vector, labels: NDArray[Any], weights: Matrix, overall: Correlation) -> Conditional:
    r"""Return the coefficients within groups, pooled by pairs of networks.

    $$\frac{\sum_g \binom{n_g}{2} r_g}{\sum_g \binom{n_g}{2}}$$

    The sums are over the groups that have a coefficient, and n counts the networks of these groups. In a resample, n_g
    is the number of networks drawn.

    The labels `(n,)` give the group of every network, for example its number of convolutions. `given` explains the
    other arguments.

    Raises:
        ValueError: Shapes do not fit, an accuracy is not finite, or a label is NaN.
    """
    if labels.shape != truth.shape:
        raise ValueError(f"labels: expected ({len(truth)},), got {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("labels: expected one for every network, got NaN")
    small = by_network(weights, len(truth))
    columns = list(finite_columns(scores, truth))
    groups, inverse = np.unique(labels, return_inverse=True)
    shape = len(groups), len(columns)
    values, draws = np.full((*shape, 2), np.nan), np.full((*shape, 2, len(weights)), np.nan)
    pairs, drawn_pairs = np.zeros((*shape, 1)), np.zeros((*shape, 1, len(weights)))
    used = np.zeros(len(truth), dtype=bool)
    for g in range(len(groups)):
        for s, (_, _, finite) in enumerate(columns):
            keep = np.flatnonzero(finite & (inverse == g))
            values[g, s], drawn = _both(scores[keep, s], truth[keep], small[keep])
            if not np.isnan(values[g, s]).all():
                used[keep] = True
                pairs[g, s] = _pairs(len(keep))
                draws[g, s] = drawn
                drawn_pairs[g, s] = _pairs(small[keep].sum(0, dtype=np.float64))
    return _conditional(int(used.sum()), overall, _pooled(values, pairs), _pooled(draws, drawn_pairs))


def among(scores: Matrix, truth: Vector, keep: NDArray[np.bool_], weights: Matrix, overall: Correlation) -> Conditional:
    """Return the coefficients among some of the networks, for example those without unreachable operations.

    `keep` `(n,)` is True for these networks. `given` explains the other arguments.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    if keep.shape != truth.shape or keep.dtype != np.bool_:
        raise ValueError(f"keep: expected ({len(truth)},) of bool, got {keep.shape} of {keep.dtype}")
    small = by_network(weights, len(truth))[keep]
    held, drawn = [], []
    for x, y, finite in finite_columns(scores[keep], truth[keep]):
        value, values = _both(x, y, small[finite])
        held.append(value)
        drawn.append(values)
    n = int(np.isfinite(scores[keep]).any(1).sum())
    return _conditional(n, overall, np.asarray(held), np.asarray(drawn))


def representatives(classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which networks are the first of their class, given the class of every network `(n,)`."""
    keep = np.zeros(len(classes), dtype=bool)
    keep[np.unique(classes, return_index=True)[1]] = True
    return keep


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
    return Conditional(n, rho, *rhos, tau, *taus, sign_change(overall.rho, rho, *rhos))
