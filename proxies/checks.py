"""Checks of a proxy on a few networks: what would make its ranking false without a word."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..random_state import random_state, random_state_kept
from .operations.isolation import neutral
from .probe import Probe
from .registry import PROXIES, Proxy, Score, score_all, tensors_in

Network = Callable[[], nn.Module]

#: Proxies that a proxy is scored beside: their scores must not change, nor its own.
NEIGHBOURS = ("snip", "naswot", "synflow")


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: What has to hold, in words.
        fault: What came instead, empty if it holds.
    """

    check: str
    fault: str = ""


@dataclass(frozen=True)
class Report:
    """The results of all checks of a proxy.

    Attributes:
        proxy: Name of the proxy.
        findings: Results, one per check.
        scores: Scores of the networks, in their order.
    """

    proxy: str
    findings: tuple[Finding, ...]
    scores: tuple[Score, ...]

    @property
    def faults(self) -> list[str]:
        """The faults, in words."""
        return [finding.fault for finding in self.findings if finding.fault]


def check(
    proxy: Proxy,
    networks: Sequence[Network],
    x: Tensor,
    y: Tensor | None,
    *,
    seed: int = 0,
    counted: Callable[[int], None] = lambda done: None,
) -> Report:
    """Check a proxy on some networks.

    Args:
        proxy: Proxy to check.
        networks: Functions that build the networks, the same each time.
        x: Images `(N, C, H, W)`.
        y: Labels `(N,)`.
        seed: Seed of every random draw.
        counted: Function that is told the number of scores so far, of two for each network.

    Returns:
        Findings: every network has a number; the scores differ; they are the same when asked again, in another order
        of networks, and beside other proxies, whose scores stay the same too; what the proxy is given and the global
        generators stay as they were.
    """
    found: list[Score] = []
    for network in (*networks, *networks[::-1]):
        found.append(score_all(network(), x, y, [proxy], seed=seed)[0])
        counted(len(found))
    scores, again = found[: len(networks)], found[len(networks) :][::-1]
    findings = (
        Finding("every network has a number", _without_number(scores)),
        Finding("the scores of networks differ", _constant(scores)),
        Finding("a second score of a network, in another order, is the same", _different(scores, again)),
        Finding("neighbours change nothing, and are not changed", _beside(proxy, networks, scores, x, y, seed)),
        Finding("what the proxy is given stays as it was", _written(proxy, networks, x, y, seed)),
        Finding("no global generator is drawn from", _drawn(proxy, networks, x, y, seed)),
    )
    return Report(proxy.name, findings, tuple(scores))


def _without_number(scores: Sequence[Score]) -> str:
    bad = [score for score in scores if score.status not in {"ok", "inf", "-inf"}]
    if not bad:
        return ""
    message = bad[0].message or "the function returns NaN"
    return f"{len(bad)} of {len(scores)} networks have none: {bad[0].status}, {message}"


def _constant(scores: Sequence[Score]) -> str:
    values = {score.value for score in scores if score.status == "ok"}
    if not values:
        return "there is no score"
    return f"all {len(scores)} scores are {values.pop():.6g}" if len(values) == 1 < len(scores) else ""


def _different(first: Sequence[Score], second: Sequence[Score]) -> str:
    pairs = [(a.value, b.value) for a, b in zip(first, second, strict=True) if not _same(a.value, b.value)]
    return f"{len(pairs)} of {len(first)} differ, such as {pairs[0][0]!r} and {pairs[0][1]!r}" if pairs else ""


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _beside(
    proxy: Proxy, networks: Sequence[Network], scores: Sequence[Score], x: Tensor, y: Tensor | None, seed: int
) -> str:
    neighbours = [PROXIES[name] for name in NEIGHBOURS if name != proxy.name]
    for network, score in zip(networks[:3], scores[:3], strict=True):
        plain = score_all(network(), x, y, neighbours, seed=seed)
        *others, own = score_all(network(), x, y, [*neighbours, proxy], seed=seed)
        own_first, *after = score_all(network(), x, y, [proxy, *neighbours], seed=seed)
        for value in (own.value, own_first.value):
            if not _same(value, score.value):
                return f"alone it is {score.value!r}, beside {', '.join(p.name for p in neighbours)} {value!r}"
        for expected, came in zip([*plain, *plain], [*others, *after], strict=True):
            if not _same(expected.value, came.value):
                return f"{expected.proxy} is {expected.value!r}, and {came.value!r} beside the proxy"
    return ""


def _written(proxy: Proxy, networks: Sequence[Network], x: Tensor, y: Tensor | None, seed: int) -> str:
    for values in _values(proxy, networks[:3], x, y, seed):
        tensors = list(tensors_in(values))
        before = [tensor.clone() for tensor in tensors]
        _called(proxy, values)
        if any(not torch.equal(old, new) and not old.isnan().any() for old, new in zip(before, tensors, strict=True)):
            return "the function writes into a tensor that it is given: work on a copy, as in w.clone()"
    return ""


def _drawn(proxy: Proxy, networks: Sequence[Network], x: Tensor, y: Tensor | None, seed: int) -> str:
    for values in _values(proxy, networks[:1], x, y, seed):
        with random_state_kept():
            before = random_state()
            _called(proxy, values)
            if random_state() != before:
                return 'the function draws from a global generator: read one instead, reads(Draw("name"))'
    return ""


def _values(
    proxy: Proxy, networks: Sequence[Network], x: Tensor, y: Tensor | None, seed: int
) -> Iterable[dict[str, Any]]:
    for network in networks:
        probe = Probe(network(), x, y, seed=seed, plan=proxy.needs)
        try:
            yield {name: probe.read(need) for name, need in proxy.given.items()}
        except Exception:
            continue


def _called(proxy: Proxy, values: dict[str, Any]) -> None:
    try:
        with neutral(next(tensors_in(values), torch.zeros(1))):
            proxy.function(**values)
    except Exception:
        return
