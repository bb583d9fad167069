"""Proxies on networks in memory, without a study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from .proxies import PROXIES
from .proxies.registry import Score, score_all


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

    Example:
        >>> import torch, zcbench
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
        >>> zcbench.score(net, torch.ones(2, 3, 2, 2), proxies=["params"])["params"].value
        39.0
    """
    chosen = [PROXIES[name] for name in (PROXIES if proxies is None else proxies)]
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
        proxies: Names; all of them by default.
        seed: Of every random draw.
    """
    names = list(PROXIES if proxies is None else proxies)
    scores = {name: score(net, x, y, proxies=names, seed=seed) for name, net in nets.items()}

    def key(proxy: str, net: str) -> float:
        value = scores[net][proxy].value
        if math.isnan(value):
            return math.inf
        return -value if PROXIES[proxy].direction == "higher" else value

    return {proxy: sorted(nets, key=lambda net: key(proxy, net)) for proxy in names}
