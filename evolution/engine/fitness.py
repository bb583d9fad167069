"""The fitness of a program: how well its scores rank trained networks, on the ground where they do so worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...bench.stats.coefficients import kendall, weighted_kendall
from ...bench.stats.conditional import partial
from ...bench.stats.top import top

Vector = NDArray[np.float64]
Objective = Literal["tau", "top", "weighted", "gain", "partial"]
Sign = Literal["any", "same", "higher"]

#: Fitness of a program that has none, because a score is not finite or all scores are equal. It is below every other
#: fitness.
NOTHING = -1.0


@dataclass(frozen=True)
class Beside:
    """What a program is compared with on some networks.

    Attributes:
        best: Highest Kendall's tau-b of the rivals.
        size: Number of parameters `(n,)`.
        size_tau: Kendall's tau-b of the number of parameters and the accuracies.
    """

    best: float
    size: Vector
    size_tau: float


def beside(rivals: Sequence[Vector], size: Vector, truth: Vector) -> Beside:
    """Return what programs are compared with, from the scores `(n,)` of rivals and the numbers of parameters `(n,)`."""
    taus = [kendall(scores, truth) for scores in rivals]
    known = [tau for tau in taus if not math.isnan(tau)]
    return Beside(max(known, default=math.nan), size, kendall(size, truth))


def coefficient(
    scores: Vector, truth: Vector, objective: Objective = "tau", share: float = 0.1, beside: Beside | None = None
) -> float:
    """Return the signed coefficient of scores and accuracies; NaN if a score is not finite or all scores are equal.

    Args:
        scores: Scores `(n,)`.
        truth: Accuracies `(n,)`, finite.
        objective: Coefficient: `tau` is Kendall's tau-b, `top` is tau-b among the most accurate networks, `weighted` is
            Vigna's weighted tau, `gain` is tau-b minus the highest tau-b of the rivals, and `partial` is the partial
            tau-b given the number of parameters.
        share: Share of the networks that count as the most accurate.
        beside: What `gain` and `partial` compare with.
    """
    if not np.isfinite(scores).all():
        return math.nan
    if objective == "top":
        chosen = top(truth, share)
        return kendall(scores[chosen], truth[chosen])
    if objective == "weighted":
        # Which scores are at the top depends on the sign of the coefficient, so the better of both signs counts.
        return max((weighted_kendall(s * scores, truth) * s for s in (1, -1)), key=abs)
    tau = kendall(scores, truth)
    if objective in {"gain", "partial"}:
        assert beside is not None
        if objective == "gain":
            return tau - beside.best
        return float(partial(*map(np.array, (tau, kendall(scores, beside.size), beside.size_tau))))
    return tau


def fitness(coefficients: Sequence[float], sign: Sign = "any") -> float:
    r"""Return the fitness of a program from its coefficients on several grounds.

    $$\min_g |\tau_g| \qquad\text{or}\qquad \max_{\pm} \min_g (\pm \tau_g) \qquad\text{or}\qquad \min_g \tau_g$$

    The first formula, for the sign `any`, is the paper's: a coefficient may be positive on one ground and negative on
    another. The second, for the sign `same`, requires one sign on all grounds. The third, for `higher`, requires a
    positive one. If a coefficient is NaN, the fitness is `NOTHING`.
    """
    if any(map(math.isnan, coefficients)):
        return NOTHING
    if sign == "higher":
        return min(coefficients)
    if sign == "any":
        return min(map(abs, coefficients))
    return max(min(coefficients), min(-c for c in coefficients))
