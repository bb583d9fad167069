"""The plain rival of a search for aggregates: a weighted sum of few proxies, fitted by ridge regression."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ...bench.stats.coefficients import kendall
from ...proxies.aggregate import ranks
from ..language.programs import Program
from .fitness import Vector
from .pools import Scale, Table

#: Weight of the squared weights for each network, where proxies and accuracies have a variance of 1.
PENALTY = 0.1


def weighted_sum(tables: Sequence[Table], scale: Scale, members: int = 0) -> Program:
    r"""Return a weighted sum of proxies as a program, fitted to the accuracies of some pools.

    $$\min_{w \ge 0} \sum_i \big( r_i - \sum_k w_k z_{ik} \big)^2 + 0.1\, n \sum_k w_k^2$$

    z are the values of the proxies on the scale and r the relative ranks of the n accuracies. Both have a mean of 0 and
    a variance of 1 in every pool. This is ridge regression (Hoerl and Kennard, Technometrics 1970) by the non-negative
    least squares of Lawson and Hanson (1974). A proxy counts as it claims, so no weight is negative. Proxies are taken
    one by one, each time the one with which the sum has the highest Kendall's tau on the pools fitted on, the least of
    several pools.

    >>> table = Table("made", {"a": np.arange(9.0)[:, None], "b": np.ones((9, 1))}, np.arange(9.0))
    >>> str(weighted_sum([table], "ranks", 1))
    'mul(3.17, a)'

    Args:
        tables: Tables of the pools, each with the same proxies.
        scale: Scale on which the proxies are read.
        members: Largest number of proxies; 0 for all. Where all may be read, nothing is chosen but the weights.
    """
    names = list(tables[0].scores)
    columns = [np.column_stack([table.values(scale)[name] for name in names]) for table in tables]
    spread = np.mean([values.std(0) for values in columns], axis=0)
    z = [_standard(values) for values in columns]
    x, r = np.concatenate(z), np.concatenate([_standard(ranks(table.truth)) for table in tables])

    def weights(chosen: Sequence[int]) -> Vector:
        penalty = np.sqrt(PENALTY * len(r)) * np.eye(len(chosen))
        found: Vector = nnls(np.vstack([x[:, chosen], penalty]), np.concatenate([r, np.zeros(len(chosen))]))[0]
        return found

    def least(chosen: Sequence[int]) -> float:
        own = weights(chosen)
        taus = [kendall(values[:, chosen] @ own, t.truth) for values, t in zip(z, tables, strict=True) if own.any()]
        return float(np.nan_to_num(min(taus, default=-1.0), nan=-1.0))

    few = 0 < members < len(names)
    chosen: list[int] = [] if few else list(range(len(names)))
    while few and len(chosen) < members:
        rest = [place for place in range(len(names)) if place not in chosen]
        chosen.append(max(rest, key=lambda place: least([*chosen, place])))
    terms = [
        _times(weight / spread[place], names[place])
        for place, weight in zip(chosen, weights(chosen), strict=True)
        if weight > 0
    ]
    return _sum(terms or [Program(names[chosen[0]])])


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return columns with a mean of 0 and a variance of 1; a constant column is 0."""
    spread = values.std(0)
    return np.asarray((values - values.mean(0)) / np.where(spread > 0, spread, 1))


def _times(weight: float, name: str) -> Program:
    return Program("mul", (Program(f"{weight:.3g}"), Program(name)))


def _sum(terms: Sequence[Program]) -> Program:
    """Return the sum of programs as a tree that is as low as possible."""
    while len(terms) > 1:
        pairs = zip_longest(terms[::2], terms[1::2])
        terms = [reduce(lambda a, b: Program("add", (a, b)), [p for p in pair if p is not None]) for pair in pairs]
    return terms[0]
