"""Scores and ranks of networks in memory, without a study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from torch import Tensor, nn

from ..errors import BatchError
from . import AGGREGATES, PROXIES
from .aggregate import only_proxies, split
from .registry import Card, Score, score_all


def score(
    net: nn.Module, x: Tensor, y: Tensor | None = None, *, proxies: Iterable[str] | None = None, seed: int = 0
) -> dict[str, Score]:
    """Score one network with several proxies; shared passes run once, and the network does not change.

    Args:
        net: Network from images to logits `(N, classes)`.
        x: Images `(N, C, H, W)`, floating point, on the network's device.
        y: Labels `(N,)` int64. Without them, proxies that need a loss have the status `not_applicable`.
        proxies: Names of proxies, a list or a text with commas; all proxies by default.
        seed: Seed of every random draw.

    Raises:
        UnknownNameError: There is no proxy of that name.
        ConfigError: A name is that of an aggregate, which ranks a pool of networks (see `rank`).
        BatchError: The network is no module, or the images or labels have a wrong kind, shape or dtype.

    Example:
        >>> import torch, zcbench
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
        >>> zcbench.score(net, torch.ones(2, 3, 2, 2), proxies=["params"])["params"].value
        39.0
    """
    _check(net, x, y)
    chosen = only_proxies(PROXIES if proxies is None else _named(proxies))
    return {s.proxy: s for s in score_all(net, x, y, chosen, seed=seed)}


def _named(proxies: Iterable[str]) -> Iterable[str]:
    return [name.strip() for name in proxies.split(",")] if isinstance(proxies, str) else proxies


def _check(net: object, x: object, y: object) -> None:
    """Require the kinds of things that networks are scored with; their shapes are checked later."""
    if not isinstance(net, nn.Module):
        raise BatchError(f"network: expected a torch.nn.Module, got {type(net).__name__}")
    for name, value in (("images", x), ("labels", y)):
        if not isinstance(value, Tensor) and (name == "images" or value is not None):
            raise BatchError(f"{name}: expected a tensor, got {type(value).__name__}: use torch.as_tensor")


def rank(
    nets: Mapping[str, nn.Module],
    x: Tensor,
    y: Tensor | None = None,
    *,
    proxies: Iterable[str] | None = None,
    seed: int = 0,
) -> dict[str, list[str]]:
    """Order networks from best to worst for each proxy; networks without a score come last, in the given order.

    Args:
        nets: Networks by name.
        x: Images `(N, C, H, W)` for all networks.
        y: Labels `(N,)` of the images.
        proxies: Names of proxies and aggregates; all by default. Aggregates rank within these networks.
        seed: Seed of every random draw.

    Raises:
        UnknownNameError: There is no proxy or aggregate of that name.
        BatchError: A network is no module, or the images or labels have a wrong kind, shape or dtype.
    """
    for net in nets.values():
        _check(net, x, y)
    names = list((*PROXIES, *AGGREGATES) if proxies is None else _named(proxies))
    computed, aggregates = split(names)
    scores = [{s.proxy: s.value for s in score_all(net, x, y, computed, seed=seed)} for net in nets.values()]
    values = {proxy.name: np.array([of_net[proxy.name] for of_net in scores]) for proxy in computed}
    values |= {a.name: a.score(values) for a in aggregates}
    cards: list[Card] = [*computed, *aggregates]
    worst_last = {card.name: (1 if card.direction == "lower" else -1) * values[card.name] for card in cards}
    keys = list(nets)
    order = {name: np.argsort(np.where(np.isnan(v), np.inf, v), kind="stable") for name, v in worst_last.items()}
    return {name: [keys[place] for place in order[name]] for name in names}
