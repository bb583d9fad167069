"""Proxies on networks in memory, without a study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from torch import Tensor, nn

from . import AGGREGATES, PROXIES
from .aggregate import alone, split
from .registry import Card, Score, score_all


def score(
    net: nn.Module, x: Tensor, y: Tensor | None = None, *, proxies: Iterable[str] | None = None, seed: int = 0
) -> dict[str, Score]:
    """Score one network with several proxies; passes that they share run once, and the network stays as it was.

    Args:
        net: From images to logits `(N, classes)`.
        x: Images `(N, C, H, W)`, floating point, on the network's device.
        y: Labels `(N,)` int64; without them, proxies that need a loss say so in their status.
        proxies: Names; all of them by default.
        seed: Of every random draw.

    Raises:
        UnknownNameError: A name is in no registry.
        ConfigError: A name is that of an aggregate, which ranks a pool: see `rank`.
        BatchError: Images or labels that nothing can be scored with.

    Example:
        >>> import torch, zcbench
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
        >>> zcbench.score(net, torch.ones(2, 3, 2, 2), proxies=["params"])["params"].value
        39.0
    """
    chosen = alone(PROXIES if proxies is None else proxies)
    return {s.proxy: s for s in score_all(net, x, y, chosen, seed=seed)}


def rank(
    nets: Mapping[str, nn.Module],
    x: Tensor,
    y: Tensor | None = None,
    *,
    proxies: Iterable[str] | None = None,
    seed: int = 0,
) -> dict[str, list[str]]:
    """Order networks from best to worst, once per proxy; networks without a score come last, in the order given.

    Args:
        nets: Networks by name.
        x: Images that all of them see.
        y: Their labels.
        proxies: Names of proxies and aggregates; all of them by default. Aggregates rank within these networks.
        seed: Of every random draw.

    Raises:
        UnknownNameError: A name is in no registry.
    """
    names = list((*PROXIES, *AGGREGATES) if proxies is None else proxies)
    computed, aggregates = split(names)
    scores = [{s.proxy: s.value for s in score_all(net, x, y, computed, seed=seed)} for net in nets.values()]
    values = {proxy.name: np.array([of_net[proxy.name] for of_net in scores]) for proxy in computed}
    values |= {a.name: a.score(values) for a in aggregates}
    cards: list[Card] = [*computed, *aggregates]
    lower = {card.name for card in cards if card.direction == "lower"}

    def key(proxy: str, net: int) -> float:
        value = float(values[proxy][net])
        if math.isnan(value):
            return math.inf
        return value if proxy in lower else -value

    keys = list(nets)
    return {proxy: [keys[net] for net in sorted(range(len(keys)), key=lambda net: key(proxy, net))] for proxy in names}
