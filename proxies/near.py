"""NEAR: the effective rank of the outputs of layers and activation functions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .passes import Forward, Operations, Tap, Tapped
from .passes.taps import Place
from .registry import reads, register


def weighted_or_activation(operations: Operations) -> Sequence[Place]:
    """Return the layers, the norms with a weight and the activation functions."""
    operations.all_covered("the proxy reads all layers, norms and activations")
    return [
        call
        for call in operations.of_kinds("convolution", "linear", "norm", "activation")
        if call.weight or call.kind != "norm"
    ]


def _effective_rank(place: Place, activation: Tensor) -> Tensor:
    """Return exp(entropy of the normalised singular values) of the first C rows of the positions x C matrix."""
    if activation.ndim == 4:
        activation = activation.permute(0, 3, 2, 1)
    rows = activation.reshape(-1, activation.shape[-1]).double()
    values = torch.linalg.svdvals(rows[: rows.shape[1]])
    share = values / values.sum()
    return torch.where(share.isnan().any(), 0.0, torch.special.entr(share).sum().exp())


RANKS = Tap(Forward(graph=False), at=weighted_or_activation, reduce=_effective_rank)


@register("near", paper="Husistein, Reiher & Eckhoff, NEAR, ICLR 2025")
def near(ranks: Tapped = reads(RANKS)) -> float:
    r"""Add up the effective ranks of the outputs of layers and activation functions.

    $$\sum_l \exp\Big( -\sum_k p_{lk} \log p_{lk} \Big), \qquad p_{lk} = \sigma_{lk} \big/ \sum_j \sigma_{lj}$$

    Here the output of layer l is a matrix of positions by C channels, with positions ordered by image, column and row.
    $\sigma_l$ are the float64 singular values of its first C rows. Batch norm is in train mode, and weights are as
    given. An output of zeros adds 0.

    Deviation: the authors start at a random row instead of the first. If feature maps are large, only the first images
    count here, and only the drawn ones in their code.
    """
    return float(sum(rank for _, rank in ranks))
