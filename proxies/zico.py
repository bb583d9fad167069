"""ZiCo: how large gradients are relative to how much they vary between batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .passes import Backward, Forward, LayerGradients, Layers
from .passes.inputs import Slice
from .passes.objectives import CROSS_ENTROPY
from .registry import reads, register


def _slice(place: int, count: int) -> LayerGradients:
    return LayerGradients(Backward(Forward(inputs=(Slice(place, count),)), CROSS_ENTROPY))


#: Weights and loss gradients on both halves of the images, and on its quarters.
HALVES = _slice(0, 2), _slice(1, 2)
QUARTERS = _slice(0, 4), _slice(1, 4), _slice(2, 4), _slice(3, 4)


@register("zico", paper="Li et al., ZiCo, ICLR 2023, eq. 13", batch_size=128)
def zico(first: Layers = reads(HALVES[0]), second: Layers = reads(HALVES[1])) -> float:
    r"""Add up over layers how large gradients are relative to how much they vary between batches.

    $$\text{zico} = \sum_l \log \sum_{w \in W_l,\, \sigma_w > 0} \frac{\operatorname{mean}_b |g_{bw}|}{\sigma_w}$$

    Here $g_b$ is the gradient of the mean cross entropy on batch b, one half of the images, and $\sigma$ is the
    population standard deviation of the signed gradients over batches, as in the authors' code. The paper prints that
    of the absolute values. The sum is over convolution and linear weights, and batch norm is in train mode. A layer
    whose gradients do not vary adds nothing. With two batches, weights with nearly equal gradients dominate the sum.
    The score is then reproducible only to a few percent, since statistics are float64 here but the pass is not;
    `zico.b4` is stable.
    """
    return _relative_size([first, second])


def _relative_size(batches: Sequence[Layers]) -> float:
    total = 0.0
    for layer in zip(*batches, strict=True):
        gradients = torch.stack([gradient for _, gradient in layer])
        spread = gradients.std(0, correction=0)
        varies = spread > 0
        ratio = (gradients.abs().mean(0)[varies] / spread[varies]).sum()
        if ratio > 0:
            total += float(ratio.log())
    return total


@register("zico.b4", paper="Li et al., ZiCo, ICLR 2023, eq. 13, with four batches", batch_size=128)
def zico_of_four_batches(
    first: Layers = reads(QUARTERS[0]),
    second: Layers = reads(QUARTERS[1]),
    third: Layers = reads(QUARTERS[2]),
    fourth: Layers = reads(QUARTERS[3]),
) -> float:
    r"""Compute zico from four quarters of the images instead of two halves.

    $$\sum_l \log \sum_w \operatorname{mean}_b |g_{bw}| / \sigma_w$$
    """
    return _relative_size([first, second, third, fourth])
