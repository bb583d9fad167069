"""The effective rank of what layers and activations give."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .passes.needs import Forward, Tap
from .probe import Probe
from .registry import register


def weighted_or_activation(net: nn.Module) -> tuple[str, ...]:
    """Name the modules that have a weight and those that are an activation function."""
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

    with $\sigma_l$ the singular values, float64, of C rows of the output as a matrix of positions by C channels,
    ordered by image, column, row. Train mode, weights as given. An output of zeros adds 0.

    Deviation: the rows are the first C; the authors start at a random one. So the first images alone count where
    feature maps are large, as in their code those that the draw hits.
    """
    ranks: list[float] = [rank for _, rank in probe.tap(RANKS)]
    return sum(ranks)
