"""Scores of one network in memory, without a study."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torch import Tensor, nn

from ..errors import BatchError
from . import PROXIES
from .aggregate import only_proxies
from .registry import Score, score_all

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
        net: Network from images to logits `(N, classes)`, or to an object or a mapping with `logits`.
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
    check_network(net)
    if datamodule is not None:
        x, y = suited(net, *first_images(x, y, datamodule, batch_size, seed))
    images = check_batch(x, y)
    chosen = only_proxies(PROXIES if proxies is None else listed(proxies))
    return {s.proxy: s for s in score_all(net, images, y, chosen, seed=seed)}


def listed(proxies: Iterable[str]) -> list[str]:
    """Return names of proxies as a list; a text is split at its commas."""
    return [name.strip() for name in proxies.split(",")] if isinstance(proxies, str) else list(proxies)


def first_images(x: object, y: object, datamodule: object, batch_size: int, seed: int) -> tuple[Tensor, Tensor | None]:
    """Return the first images of a data module and their labels.

    Raises:
        BatchError: There are images beside the data module.
        ConfigError: The data module fails, or has too few images.
    """
    from ..datasets.datamodule import batch_of

    if x is not None or y is not None:
        raise BatchError("images: expected either images x and labels y, or a datamodule, got both")
    batch = batch_of(datamodule, batch_size, seed)
    return batch.x, batch.y


def suited(net: nn.Module, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return images in the dtype of a network, and images and labels on its device."""
    like = next((p for p in net.parameters() if p.is_floating_point()), x)
    return x.to(like), None if y is None else y.to(like.device)


def check_network(net: object, name: str = "") -> None:
    """Require a module.

    Raises:
        BatchError: This is no module.
    """
    if not isinstance(net, nn.Module):
        raise BatchError(f"network{name and f' {name}'}: expected a torch.nn.Module, got {type(net).__name__}")


def check_batch(x: object, y: object) -> Tensor:
    """Require images, and labels if there are any, to be tensors; their shapes are checked later.

    Raises:
        BatchError: One of them is no tensor.
    """
    for name, value in (("images", x), ("labels", y)):
        if not isinstance(value, Tensor) and (name == "images" or value is not None):
            raise BatchError(f"{name}: expected a tensor, got {type(value).__name__}: use torch.as_tensor")
    assert isinstance(x, Tensor)
    return x
