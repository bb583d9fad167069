"""What a leaderboard says of a proxy beside its correlations: the top of its ranking, and what size explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .explain import Conditional, among, given, representatives, within
from .stats import Correlation, Matrix, Vector, coefficients
from .tops import choose, tops

#: How many networks a search would train.
CHOSEN = 10


@dataclass(frozen=True)
class Detail:
    """One proxy on one board; means over seeds.

    Attributes:
        pearson: Of scores and accuracies.
        weighted_tau: Kendall's tau that weighs the top by hyperbola (Vigna, WWW 2015).
        ties: Share of pairs of scores that are equal.
        precision_10: Share of the 10 % with the highest scores that are among the 10 % most accurate.
        ndcg_10: Normalised discounted cumulative gain of the 10 % with the highest scores.
        regret_10: Percent by which the best of the ten highest scores misses the best accuracy.
        best_percentile: Percent of the other networks that score below the most accurate one.
        conditional: Both coefficients given params, given MACs, and where a space knows of it within equal numbers of
            convolutions, one network of every isomorphism class, and without unreachable operations.
    """

    pearson: float
    weighted_tau: float
    ties: float
    precision_10: float
    ndcg_10: float
    regret_10: float
    best_percentile: float
    conditional: Mapping[str, Conditional]

    def flat(self) -> dict[str, float | str]:
        """Return one level of plain values, for CSV; a change of sign is flagged where its interval excludes zero."""
        record: dict[str, float | str] = {k: v for k, v in vars(self).items() if k != "conditional"}
        for name, found in self.conditional.items():
            record |= {f"rho_{name}": found.rho, f"rho_{name}_low": found.rho_low, f"rho_{name}_high": found.rho_high}
            record |= {f"tau_{name}": found.tau, f"sign_change_{name}": "yes" if found.rho_sign_change else ""}
        return record


def detail(
    scores: Matrix,
    truth: Vector,
    sizes: Mapping[str, NDArray[np.float64]],
    weights: Matrix,
    overall: Correlation,
    *,
    higher_is_better: bool,
) -> Detail:
    """Work out the details of one proxy.

    Args:
        scores: `(n, seeds)`.
        truth: `(n,)`, finite.
        sizes: `params`, `macs`, and whatever else is known of the networks, each `(n,)`.
        weights: `(resamples, n)`.
        overall: The coefficients without conditions.
        higher_is_better: Which end of the scores is their top.
    """
    found = coefficients(scores, truth, higher_is_better=higher_is_better)
    top = tops(scores, truth, (0.1,), higher_is_better=higher_is_better)
    choice = choose(scores, truth, min(CHOSEN, len(truth)), higher_is_better=higher_is_better)
    conditional = {f"given_{name}": given(scores, truth, sizes[name], weights, overall) for name in ("params", "macs")}
    if "convolutions" in sizes:
        conditional["within_convolutions"], _ = within(scores, truth, sizes["convolutions"], weights, overall)
    if "isomorphism_class" in sizes:
        first = representatives(sizes["isomorphism_class"])
        conditional["among_classes"] = among(scores, truth, first, weights, overall)
    if "unreachable" in sizes:
        conditional["among_reachable"] = among(scores, truth, sizes["unreachable"] == 0, weights, overall)
    return Detail(
        pearson=found.pearson,
        weighted_tau=found.weighted_tau,
        ties=found.ties,
        precision_10=float(top.precision[0]),
        ndcg_10=float(top.ndcg[0]),
        regret_10=choice.regret,
        best_percentile=choice.percentile,
        conditional=conditional,
    )
