"""The numbers that the charts of the page draw, as plain values for JSON: one record per board."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..results.panel import Panel, Sample
from ..results.ranking import CUTS
from ..results.standing import Standing
from ..stats.ranks import Vector
from .numbers import null_if_not_finite

#: Largest number of networks of a board that are drawn.
DRAWN = 300
#: Quantiles of the scores that are written under a scatter.
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def chart(standing: Standing, labels: Sequence[str]) -> dict[str, Any]:
    """Return what is drawn of a board; numbers have three digits, and what is not finite is None.

    Args:
        standing: The board.
        labels: Names of its rankings.
    """
    sample = standing.sample
    panels = {(panel.proxy, panel.batch_size): panel for panel in sample.panels}
    drawn = _drawn(sample)
    proxies = [
        {
            "label": label,
            "ms": _short(r.ms),
            "tau": _short(r.claimed_tau),
            **_scores(panels[r.proxy, r.batch_size], drawn),
            "top": [
                [_short(panels[r.proxy, r.batch_size].sign * value) for value in values]
                for values in (d.curve.tau_top_accuracy.tolist(), d.curve.tau_top_score.tolist())
            ],
        }
        for label, r, d in zip(labels, standing.rankings, standing.details, strict=True)
    ]
    made = {
        "networks": [sample.networks[i] for i in drawn],
        "of": len(sample.networks),
        "accuracy": [_short(value, 4) for value in sample.truth[drawn].tolist()],
        "cuts": list(CUTS),
        "proxies": proxies,
        "maps": list(_maps(standing, labels)),
    }
    result: dict[str, Any] = null_if_not_finite(made)
    return result


def _drawn(sample: Sample) -> list[int]:
    """Return the networks that are drawn, the most accurate first: all, or evenly spaced in the order of accuracy."""
    order = np.argsort(-sample.truth, kind="stable")
    if len(order) > DRAWN:
        order = order[np.linspace(0, len(order) - 1, DRAWN).round().astype(int)]
    return [int(place) for place in order]


def _scores(panel: Panel, drawn: Sequence[int]) -> dict[str, Any]:
    """Return the ranks of the scores of the first seed, 1 for the claimed best, and quantiles of these scores."""
    scores: Vector = panel.scores[drawn, 0]
    finite = np.isfinite(scores)
    ranks = np.full(len(scores), np.nan)
    known = panel.sign * scores[finite]
    ranks[finite] = 1 + len(known) - np.searchsorted(np.sort(known), known, side="right")
    ticks = np.quantile(known, TICKS) * panel.sign if finite.any() else np.zeros(0)
    return {
        "ranks": [int(rank) if np.isfinite(rank) else None for rank in ranks.tolist()],
        "ticks": [_short(tick) for tick in ticks.tolist()],
    }


def _maps(standing: Standing, labels: Sequence[str]) -> Iterable[dict[str, Any]]:
    """Yield how proxies differ and how alike they rank, batch size by batch size: cells of a symmetric matrix."""
    place = {label: at for at, label in enumerate(labels)}
    name = standing.sample.label
    for family in dict.fromkeys(family for family, _ in standing.comparisons):
        gaps = []
        for of, row in standing.comparisons:
            if of == family:
                a, b = place[name(row.first)], place[name(row.second)]
                sign, (low, high) = (1, (row.tau.low, row.tau.high))
                if a > b:
                    a, b, sign, low, high = b, a, -1, -high, -low
                gaps.append([a, b, *map(_short, (sign * row.tau.difference, low, high, row.tau.p_holm)), row.n])
        alike = [
            [*sorted((place[row.first], place[row.second])), _short(row.rho), _short(row.tau), row.n]
            for of, row in standing.agreements
            if of == family
        ]
        yield {"batches": family, "differences": gaps, "agreement": alike}


def _short(value: float, digits: int = 3) -> float:
    """Return a number with a few significant digits."""
    return float(f"{value:.{digits}g}")
