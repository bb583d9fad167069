"""Scores and ranks of networks in memory, without a study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from ..errors import BatchError
from . import AGGREGATES, PROXIES
from .aggregate import only_proxies, split
from .registry import Card, Score, score_all

if TYPE_CHECKING:
    from pytorch_lightning import LightningDataModule


def score(
    net: nn.Module,
    x: Tensor | None = None,
    y: Tensor | None = None,
    *,
    datamodule: LightningDataModule | None = None,
    batch_size: int = 64,
    proxies: Iterable[str] | None = None,
    seed: int = 0,
) -> dict[str, Score]:
    """Score one network with several proxies; shared passes run once, and the network does not change.

    Args:
        net: Network from images to logits `(N, classes)`.
        x: Images `(N, C, H, W)`, floating point, on the network's device.
        y: Labels `(N,)` int64. Without them, proxies that need a loss have the status `not_applicable`.
        datamodule: A `LightningDataModule`, in place of images and labels: the first of its training loader are used,
            drawn by the seed, in the network's dtype and on its device.
        batch_size: Number of images that a data module gives.
        proxies: Names of proxies, a list or a text with commas; all proxies by default.
        seed: Seed of every random draw.

    Raises:
        UnknownNameError: There is no proxy of that name.
        ConfigError: A name is that of an aggregate, which ranks a pool of networks (see `rank`); or the data module
            fails, or has too few images.
        BatchError: The network is no module, or the images or labels have a wrong kind, shape or dtype; or there are
            both images and a data module.

    Example:
        >>> import torch, zcbench
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
        >>> zcbench.score(net, torch.ones(2, 3, 2, 2), proxies=["params"])["params"].value
        39.0
    """
    _check_network(net)
    if datamodule is not None:
        if x is not None or y is not None:
            raise BatchError("images: expected either images x and labels y, or a datamodule, got both")
        x, y = _first(net, datamodule, batch_size, seed)
    images = _checked(x, y)
    chosen = only_proxies(PROXIES if proxies is None else _named(proxies))
    return {s.proxy: s for s in score_all(net, images, y, chosen, seed=seed)}


def _named(proxies: Iterable[str]) -> Iterable[str]:
    return [name.strip() for name in proxies.split(",")] if isinstance(proxies, str) else proxies


def _first(net: nn.Module, datamodule: Any, batch_size: int, seed: int) -> tuple[Tensor, Tensor | None]:
    """Return images and labels of a data module, on the device of a network and the images in its dtype."""
    from ..datasets.datamodule import batch_of

    batch = batch_of(datamodule, batch_size, seed)
    like = next((p for p in net.parameters() if p.is_floating_point()), batch.x)
    return batch.x.to(like), None if batch.y is None else batch.y.to(like.device)


def _check_network(net: object) -> None:
    if not isinstance(net, nn.Module):
        raise BatchError(f"network: expected a torch.nn.Module, got {type(net).__name__}")


def _checked(x: object, y: object) -> Tensor:
    """Require images, and labels if there are any, to be tensors; their shapes are checked later."""
    for name, value in (("images", x), ("labels", y)):
        if not isinstance(value, Tensor) and (name == "images" or value is not None):
            raise BatchError(f"{name}: expected a tensor, got {type(value).__name__}: use torch.as_tensor")
    assert isinstance(x, Tensor)
    return x


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
        _check_network(net)
        _checked(x, y)
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
