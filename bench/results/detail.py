"""What a leaderboard says of a proxy beside its correlations: the top of its ranking, and what size explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..stats.coefficients import Correlation, Matrix, Vector, coefficients
from ..stats.conditional import Conditional, among, given, representatives, within
from ..stats.top import Tops, choose, tops

#: How many networks a search would train.
CHOSEN = 10
#: Where the curves over the cut-off are drawn, as shares of the networks.
CUTS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


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
        curve: The top at every cut-off of `CUTS`.
    """

    pearson: float
    weighted_tau: float
    ties: float
    precision_10: float
    ndcg_10: float
    regret_10: float
    best_percentile: float
    conditional: Mapping[str, Conditional]
    curve: Tops

    def flat(self) -> dict[str, float | str]:
        """Return one level of plain values, for CSV; a change of sign is flagged where its interval excludes zero."""
        record: dict[str, float | str] = {k: v for k, v in vars(self).items() if k not in {"conditional", "curve"}}
        for name, found in self.conditional.items():
            record |= {f"rho_{name}": found.rho, f"rho_{name}_low": found.rho_low, f"rho_{name}_high": found.rho_high}
            record |= {f"tau_{name}": found.tau, f"sign_change_{name}": "yes" if found.rho_sign_change else ""}
        return record

    def points(self) -> list[dict[str, float]]:
        """Return the curve, one record per cut-off, for CSV."""
        names = [name for name in vars(self.curve) if name not in {"n", "shares"}]
        return [
            {"share": share, "n": self.curve.n} | {name: float(getattr(self.curve, name)[i]) for name in names}
            for i, share in enumerate(self.curve.shares.tolist())
        ]


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
    top = tops(scores, truth, CUTS, higher_is_better=higher_is_better)
    choice = choose(scores, truth, max(1, min(CHOSEN, len(truth))), higher_is_better=higher_is_better)
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
        precision_10=float(top.precision[CUTS.index(0.1)]),
        ndcg_10=float(top.ndcg[CUTS.index(0.1)]),
        regret_10=choice.regret,
        best_percentile=choice.percentile,
        conditional=conditional,
        curve=top,
    )
