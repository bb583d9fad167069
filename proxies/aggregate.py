"""Aggregates: proxies that are defined on a whole pool of scores, and change when the pool does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..errors import ConfigError, unknown_name
from ..registry import Registry
from .registry import PROXIES, Card, Proxy, card

Vector = NDArray[np.float64]
AggregateFunction = Callable[[Mapping[str, Vector]], Vector]
F = TypeVar("F", bound=AggregateFunction)


@dataclass(frozen=True, kw_only=True)
class Aggregate(Card):
    """The card of an aggregate, whose function takes a pool's scores to as many.

    It gets the members' scores by name, each `(m,)`, none NaN, higher better, and returns `(m,)`.

    Attributes:
        members: The proxies that it reads.
    """

    function: AggregateFunction
    members: tuple[str, ...]

    def card(self) -> dict[str, Any]:
        """Return the card as plain values, for JSON; the batch size is the largest of its members' protocols."""
        proxies = [PROXIES[member] for member in self.members]
        needs = [need for proxy in proxies for need in proxy.needs]
        return card(self, self.members, needs, max(proxy.batch_size for proxy in proxies))

    def score(self, scores: Mapping[str, Vector]) -> Vector:
        """Score a pool; a network that lacks a member's score is in no pool, and gets NaN.

        Args:
            scores: By member, `(m,)`, as the proxies give them.
        """
        signed = {name: scores[name] if PROXIES[name].direction == "higher" else -scores[name] for name in self.members}
        pool = np.logical_and.reduce([~np.isnan(values) for values in signed.values()])
        assert isinstance(pool, np.ndarray)
        result = np.full(len(pool), np.nan)
        if pool.any():
            result[pool] = self.function({name: values[pool] for name, values in signed.items()})
        return result


AGGREGATES: Registry[Aggregate] = Registry("aggregate")


def aggregate(name: str, *, of: Iterable[str], paper: str, version: int = 1) -> Callable[[F], F]:
    """Register a function of a pool's scores as an aggregate and return it unchanged."""

    def decorate(function: F) -> F:
        AGGREGATES.add(name, Aggregate(name=name, function=function, version=version, members=tuple(of), paper=paper))
        return function

    return decorate


def split(names: Iterable[str]) -> tuple[list[Proxy], list[Aggregate]]:
    """Return the proxies that have to be computed for some names, members of aggregates among them, and the aggregates.

    Raises:
        UnknownNameError: A name is in neither registry.
    """
    names = _known(names)
    aggregates = [AGGREGATES[name] for name in names if name in AGGREGATES]
    proxies = {name: PROXIES[name] for name in names if name not in AGGREGATES}
    members = {m: PROXIES[m] for a in aggregates for m in a.members}
    return list((proxies | members).values()), aggregates


def alone(names: Iterable[str]) -> list[Proxy]:
    """Return proxies that score a network by itself.

    Raises:
        ConfigError: One ranks a pool.
        UnknownNameError: A name is in neither registry.
    """
    names = _known(names)
    if pooled := [name for name in names if name in AGGREGATES]:
        raise ConfigError(
            f"proxies: {pooled[0]} ranks networks within a pool, so one network has no score: use `zcbench run`, or "
            "zcbench.rank"
        )
    return [PROXIES[name] for name in names]


def _known(names: Iterable[str]) -> list[str]:
    names = list(names)
    for name in names:
        if name not in PROXIES and name not in AGGREGATES:
            raise unknown_name("proxy", name, (*PROXIES, *AGGREGATES))
    return names


def pool_id(networks: Iterable[str]) -> str:
    """Name a pool by its size and a digest of its networks, whatever their order."""
    names = sorted(networks)
    return f"{len(names)} networks {hashlib.sha256(chr(10).join(names).encode()).hexdigest()[:8]}"


def log_ranks(scores: Iterable[Vector]) -> Vector:
    r"""Add up the logarithms of relative ranks, $\sum_k \log(r_k / m)$ with 1 for the worst of m; ties share a rank."""
    total: Vector = np.sum([np.log(rankdata(values) / len(values)) for values in scores], axis=0)
    return total
