"""ZiCo: how large gradients are relative to how much they vary between batches."""

from __future__ import annotations

import torch

from .passes.needs import Backward, Forward, Gradient
from .probe import Probe
from .registry import register


def _slices(count: int) -> tuple[Gradient, ...]:
    passes = [Forward(inputs=(f"data[{i}/{count}]",)) for i in range(count)]
    return tuple(Gradient(Backward(forward, "loss"), of="parameters") for forward in passes)


TWO, FOUR = _slices(2), _slices(4)


@register("zico", needs=TWO, paper="Li et al., ZiCo, ICLR 2023, eq. 13", batch_size=128)
def zico(probe: Probe, batches: tuple[Gradient, ...] = TWO) -> float:
    r"""Add up over layers how large gradients are relative to how much they vary between batches.

    $$\text{zico} = \sum_l \log \sum_{w \in W_l,\, \sigma_w > 0} \frac{\operatorname{mean}_b |g_{bw}|}{\sigma_w}$$

    Here $g_b$ is the gradient of the mean cross entropy on batch b, one half of the images, and $\sigma$ is the
    population standard deviation of the signed gradients over batches, as in the authors' code. The paper prints that
    of the absolute values. The sum is over convolution and linear weights, and batch norm is in train mode. A layer
    whose gradients do not vary adds nothing. With two batches, weights with nearly equal gradients dominate the sum.
    The score is then reproducible only to a few percent, since statistics are float64 here but the pass is not;
    `zico.b4` is stable.
    """
    total = 0.0
    for layer in zip(*(probe.weights_and_gradients(batch) for batch in batches), strict=True):
        gradients = torch.stack([gradient for _, gradient in layer])
        spread = gradients.std(0, correction=0)
        varies = spread > 0
        ratio = (gradients.abs().mean(0)[varies] / spread[varies]).sum()
        if ratio > 0:
            total += float(ratio.log())
    return total


@register("zico.b4", needs=FOUR, paper="Li et al., ZiCo, ICLR 2023, eq. 13, with four batches", batch_size=128)
def zico_of_four_batches(probe: Probe) -> float:
    r"""Compute zico from four quarters of the images instead of two halves.

    $$\sum_l \log \sum_w \operatorname{mean}_b |g_{bw}| / \sigma_w$$
    """
    return zico(probe, FOUR)
