"""Fitness of a program: how well its scores rank trained networks, at the ground where they do so worst."""

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

#: Of a program that ranks nothing: a score is not finite, or all are equal. Below every other fitness.
NOTHING = -1.0


def coefficient(scores: Vector, truth: Vector, objective: Objective = "tau", share: float = 0.1) -> float:
    """Return how scores rank, signed; NaN where one is not finite or all are equal.

    Args:
        scores: `(n,)`.
        truth: `(n,)`, finite accuracies.
        objective: Kendall's tau-b; tau-b among the `top` share by accuracy; Vigna's weighted tau.
        share: How many are the most accurate.
    """
    if not np.isfinite(scores).all():
        return math.nan
    if objective == "top":
        chosen = top(truth, share)
        return kendall(scores[chosen], truth[chosen])
    if objective == "weighted":
        # The top of the scores is unknown until their sign is, so the better reading counts.
        return max((weighted_kendall(s * scores, truth) * s for s in (1, -1)), key=abs)
    return kendall(scores, truth)


def fitness(coefficients: Sequence[float], sign: Sign = "any") -> float:
    r"""Return the least of the coefficients of a program at several grounds.

    $$\min_g |\tau_g| \qquad\text{or}\qquad \max_{\pm} \min_g (\pm \tau_g)$$

    The first is the paper's: a program may rank one space upwards and another downwards. With the `same` sign it may
    not. `NOTHING` where a coefficient is NaN.
    """
    if any(map(math.isnan, coefficients)):
        return NOTHING
    if sign == "any":
        return min(map(abs, coefficients))
    return max(min(coefficients), min(-c for c in coefficients))
