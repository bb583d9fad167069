"""L-SWAG: how little gradients vary, times the number of activation patterns."""

from __future__ import annotations

import torch

from .passes import DATA, Layers, Tap, Tapped
from .passes.taps import relus
from .registry import reads, register
from .swap import patterns_of, swap
from .zico import QUARTERS

PATTERNS = Tap(DATA, at=relus, reduce=patterns_of)


@register(
    "l_swag",
    paper="Casarin et al., L-SWAG, CVPR 2025, eq. 1 (from the paper's formula, no reference code)",
)
def l_swag(
    first: Layers = reads(QUARTERS[0]),
    second: Layers = reads(QUARTERS[1]),
    third: Layers = reads(QUARTERS[2]),
    fourth: Layers = reads(QUARTERS[3]),
    patterns: Tapped = reads(PATTERNS),
) -> float:
    r"""Multiply how little gradients vary between batches by the number of activation patterns.

    $$\Big( \sum_l \log \sum_{w \in W_l,\, \sigma_w > 0} \frac{1}{\sigma_w} \Big) \cdot
    \left| \{ (1[a_u(x_1) > 0], \dots, 1[a_u(x_N) > 0]) : u \} \right|$$

    Here $\sigma_w$ is the population standard deviation of |gradient| over four quarters of the images, for convolution
    and linear weights, and u are the units of all ReLU feature maps (see swap). This follows the paper's formula, since
    its code is not public. The authors keep an interval of layers that they find once for every search space; here all
    layers count.
    """
    trainability = 0.0
    for layer in zip(first, second, third, fourth, strict=True):
        spread = torch.stack([gradient.abs() for _, gradient in layer]).std(0, correction=0)
        varies = spread > 0
        if varies.any():
            trainability += float(spread[varies].reciprocal().sum().log())
    return trainability * swap(patterns)
