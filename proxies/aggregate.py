"""Aggregates: proxies that score the networks of a pool by the scores of other proxies, their ranks or their values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, unknown_name
from ..registry import Registry
from .registry import PROXIES, Card, Proxy, card

Vector = NDArray[np.float64]
AggregateFunction = Callable[[Mapping[str, Vector]], Vector]
F = TypeVar("F", bound=AggregateFunction)


@dataclass(frozen=True, kw_only=True)
class Aggregate(Card):
    """The card of an aggregate.

    Attributes:
        function: Function from the members' scores of m networks to m scores. It gets scores `(m,)` by name, without
            NaN.
        members: Names of the proxies that the aggregate reads.
        over: What of the scores counts. With `ranks`, the function gets scores of which higher is better, and only
            their order within the pool counts. With `values`, it gets the scores as the proxies give them, and what it
            returns for a network does not depend on the others.
    """

    function: AggregateFunction
    members: tuple[str, ...]
    over: Literal["ranks", "values"] = "ranks"

    def card(self) -> dict[str, Any]:
        """Return the card as plain values, for JSON; its batch size is the largest of its members."""
        proxies = [PROXIES[member] for member in self.members]
        needs = [need for proxy in proxies for need in proxy.needs]
        return card(self, self.members, needs, max(proxy.batch_size for proxy in proxies))

    def score(self, scores: Mapping[str, Vector]) -> Vector:
        """Score the networks of a pool; a network without a score of every member is left out, and gets NaN.

        Args:
            scores: Scores `(m,)` by name of the proxy, with the sign that the proxy gives.
        """
        given = {name: self._oriented(name, scores[name]) for name in self.members}
        pool = np.logical_and.reduce([~np.isnan(values) for values in given.values()])
        assert isinstance(pool, np.ndarray)
        result = np.full(len(pool), np.nan)
        if pool.any():
            result[pool] = self.function({name: values[pool] for name, values in given.items()})
        return result

    def _oriented(self, name: str, scores: Vector) -> Vector:
        return -scores if self.over == "ranks" and PROXIES[name].direction == "lower" else scores


AGGREGATES: Registry[Aggregate] = Registry("aggregate")


def aggregate(
    name: str,
    *,
    of: Iterable[str],
    paper: str,
    version: int = 1,
    over: Literal["ranks", "values"] = "ranks",
    tuned_on: str = "",
) -> Callable[[F], F]:
    """Register a function of the scores of a pool as an aggregate, and return it unchanged; see `Aggregate`."""

    def decorate(function: F) -> F:
        found = Aggregate(
            name=name,
            function=function,
            version=version,
            members=tuple(of),
            paper=paper,
            over=over,
            tuned_on=tuned_on,
        )
        AGGREGATES.add(name, found)
        return function

    return decorate


def split(names: Iterable[str]) -> tuple[list[Proxy], list[Aggregate]]:
    """Return the proxies to compute for some names, members of aggregates included, and the aggregates.

    Raises:
        UnknownNameError: There is no proxy or aggregate of that name.
    """
    names = _known(names)
    aggregates = [AGGREGATES[name] for name in names if name in AGGREGATES]
    proxies = {name: PROXIES[name] for name in names if name not in AGGREGATES}
    members = {m: PROXIES[m] for a in aggregates for m in a.members}
    return list((proxies | members).values()), aggregates


def only_proxies(names: Iterable[str]) -> list[Proxy]:
    """Return the proxies of some names, none of which may be an aggregate.

    Raises:
        ConfigError: A name is that of an aggregate.
        UnknownNameError: There is no proxy or aggregate of that name.
    """
    names = _known(names)
    if pooled := [name for name in names if name in AGGREGATES]:
        raise ConfigError(
            f"proxies: expected proxies that score one network, got {pooled[0]}, which ranks networks within a pool: "
            "use `zcbench run` or zcbench.rank"
        )
    return [PROXIES[name] for name in names]


def _known(names: Iterable[str]) -> list[str]:
    names = list(names)
    for name in names:
        if name not in PROXIES and name not in AGGREGATES:
            raise unknown_name("proxy", name, (*PROXIES, *AGGREGATES))
    return names


def pool_id(networks: Iterable[str]) -> str:
    """Return the name of a pool: its size and a digest of its networks, the same in any order."""
    names = sorted(networks)
    return f"{len(names)} networks {hashlib.sha256(chr(10).join(names).encode()).hexdigest()[:8]}"


def log_ranks(scores: Iterable[Vector]) -> Vector:
    r"""Return $\sum_k \log(r_k / m)$, where $r_k$ is 1 for the worst of m networks and ties share the mean rank."""
    total: Vector = np.sum([np.log(ranks(values) / len(values)) for values in scores], axis=0)
    return total


def ranks(values: Vector) -> Vector:
    """Return ranks from 1, the lowest; equal values share the mean rank, and a NaN makes all NaN.

    SciPy's `rankdata` gives the same, and its module takes a second to import.
    """
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    place, counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
    result: Vector = (counts.cumsum() - (counts - 1) / 2)[place]
    return result
