"""NEAR: the effective rank of the outputs of layers and activation functions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .passes.needs import Forward, Tap
from .probe import Probe
from .registry import register


def weighted_or_activation(net: nn.Module) -> tuple[str, ...]:
    """Return the names of the modules that have a weight or are an activation function."""
    return tuple(
        name
        for name, module in net.named_modules()
        if isinstance(getattr(module, "weight", None), Tensor)
        or (type(module).__module__ == nn.ReLU.__module__ and not isinstance(module, nn.MultiheadAttention))
    )


def _effective_rank(activation: Tensor) -> float:
    """Return exp(entropy of the normalised singular values) of the first C rows of the positions x C matrix."""
    if activation.ndim == 4:
        activation = activation.permute(0, 3, 2, 1)
    rows = activation.reshape(-1, activation.shape[-1]).double()
    values = torch.linalg.svdvals(rows[: rows.shape[1]])
    share = values / values.sum()
    if share.isnan().any():
        return 0.0
    return float(torch.special.entr(share).sum().exp())


RANKS = Tap(Forward(graph=False), at=weighted_or_activation, reduce=_effective_rank)


@register("near", needs=[RANKS], paper="Husistein, Reiher & Eckhoff, NEAR, ICLR 2025")
def near(probe: Probe) -> float:
    r"""Add up the effective ranks of the outputs of layers and activation functions.

    $$\sum_l \exp\Big( -\sum_k p_{lk} \log p_{lk} \Big), \qquad p_{lk} = \sigma_{lk} \big/ \sum_j \sigma_{lj}$$

    Here the output of layer l is a matrix of positions by C channels, with positions ordered by image, column and row.
    $\sigma_l$ are the float64 singular values of its first C rows. Batch norm is in train mode, and weights are as
    given. An output of zeros adds 0.

    Deviation: the authors start at a random row instead of the first. If feature maps are large, only the first images
    count here, and only the drawn ones in their code.
    """
    ranks: list[float] = [rank for _, rank in probe.tap(RANKS)]
    return sum(ranks)
