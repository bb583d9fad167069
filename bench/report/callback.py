"""Proxies of a model at the start of its training, beside its losses in the same logger. Lightning is imported here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_info, rank_zero_warn

from ...datasets.datamodule import parts
from ...errors import ConfigError, ZcbenchError
from ...proxies.aggregate import only_proxies
from ...proxies.rank import CHEAP, SIZES
from ...proxies.registry import Score, score_all
from ...proxies.score import listed, suited


class ZeroCost(pl.Callback):
    """A callback of a Trainer that logs proxies of the model when `fit` begins.

    The proxies see the first training batch, as the model gets it, and the weights before the first step. The model,
    its mode, its gradients and all random states are as they were, and no batch is drawn for this. A score that is no
    finite number is not logged, and a line says why. A failure costs a line and never ends the training. With several
    processes, the first alone scores its batch.

    Args:
        proxies: Names of proxies, a list or a text with commas; by default params, macs and those of `zcbench.rank`.
        module: Name of the part of the model that maps images to logits, as `net`; empty for the model itself.
        images: Number of images of the batch that are used, at most.
        seed: Seed of every random draw.
        prefix: What the names of the logged metrics begin with.

    Attributes:
        scores: Scores of the last `fit` by name of the proxy, those that were not logged too.

    Raises:
        UnknownNameError: There is no proxy of that name.
        ConfigError: A name is that of an aggregate, which ranks a pool of networks; or `images` is less than 1.

    Example:
        >>> import zcbench
        >>> callback = zcbench.ZeroCost("snip,naswot", images=16)  # for Trainer(callbacks=[callback])
        >>> [proxy.name for proxy in callback.proxies], callback.scores
        (['snip', 'naswot'], {})
    """

    def __init__(
        self,
        proxies: Iterable[str] = (*SIZES, *CHEAP),
        *,
        module: str = "",
        images: int = 64,
        seed: int = 0,
        prefix: str = "zero_cost/",
    ) -> None:
        if images < 1:
            raise ConfigError(f"images: expected 1 or more, got {images}")
        self.proxies = only_proxies(listed(proxies))
        self.module, self.images, self.seed, self.prefix = module, images, seed, prefix
        self.scores: dict[str, Score] = {}
        self._waits = False

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Wait for the first batch of this `fit`."""
        self._waits = trainer.is_global_zero

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Score the model on the first batch, and log what was found."""
        if not self._waits:
            return
        self._waits = False
        self.scores = {}
        try:
            self.scores = self._scored(trainer, pl_module, batch)
        except (ZcbenchError, AttributeError) as error:
            rank_zero_warn(f"zcbench.ZeroCost: nothing is logged: {error}")
            return
        found = {f"{self.prefix}{name}": score.value for name, score in self.scores.items() if score.status == "ok"}
        for logger in trainer.loggers:
            logger.log_metrics(found, step=trainer.global_step)
        for name, score in self.scores.items():
            if score.status != "ok":
                rank_zero_info(f"zcbench.ZeroCost: {name} is not logged: {score.status}: {score.message}")

    def _scored(self, trainer: pl.Trainer, model: pl.LightningModule, batch: Any) -> dict[str, Score]:
        net = model.get_submodule(self.module)
        waits = any(isinstance(module, torch.nn.SyncBatchNorm) for module in net.modules())
        if waits and trainer.world_size > 1:
            raise ConfigError("model: its SyncBatchNorm waits for the other processes, which score nothing")
        x, y = parts(batch, "of the Trainer")
        x, y = suited(net, x[: self.images], None if y is None else y[: self.images])
        return {score.proxy: score for score in score_all(net, x, y, self.proxies, seed=self.seed)}
