"""The fitness of a program: how well its scores rank trained networks, on the ground where they do so worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...bench.stats.coefficients import kendall, weighted_kendall
from ...bench.stats.top import top

Vector = NDArray[np.float64]
Objective = Literal["tau", "top", "weighted"]
Sign = Literal["any", "same"]

#: Fitness of a program that has none, because a score is not finite or all scores are equal. It is below every other
#: fitness.
NOTHING = -1.0


def coefficient(scores: Vector, truth: Vector, objective: Objective = "tau", share: float = 0.1) -> float:
    """Return the signed coefficient of scores and accuracies; NaN if a score is not finite or all scores are equal.

    Args:
        scores: Scores `(n,)`.
        truth: Accuracies `(n,)`, finite.
        objective: Coefficient: `tau` is Kendall's tau-b, `top` is tau-b among the most accurate networks, and
            `weighted` is Vigna's weighted tau.
        share: Share of the networks that count as the most accurate.
    """
    if not np.isfinite(scores).all():
        return math.nan
    if objective == "top":
        chosen = top(truth, share)
        return kendall(scores[chosen], truth[chosen])
    if objective == "weighted":
        # Which scores are at the top depends on the sign of the coefficient, so the better of both signs counts.
        return max((weighted_kendall(s * scores, truth) * s for s in (1, -1)), key=abs)
    return kendall(scores, truth)


def fitness(coefficients: Sequence[float], sign: Sign = "any") -> float:
    r"""Return the fitness of a program from its coefficients on several grounds.

    $$\min_g |\tau_g| \qquad\text{or}\qquad \max_{\pm} \min_g (\pm \tau_g)$$

    The first formula, for the sign `any`, is the paper's: a coefficient may be positive on one ground and negative on
    another. The second, for the sign `same`, requires one sign on all grounds. If a coefficient is NaN, the fitness is
    `NOTHING`.
    """
    if any(map(math.isnan, coefficients)):
        return NOTHING
    if sign == "any":
        return min(map(abs, coefficients))
    return max(min(coefficients), min(-c for c in coefficients))
