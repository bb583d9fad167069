"""Fisher pruning: the sensitivity of the loss to removing a channel."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .passes import LOSS_PASS, Call, Tap, Tapped
from .passes.taps import Place, layers
from .registry import reads, register


def _channel_saliency(place: Place, activation: Tensor, gradient: Tensor) -> Tensor:
    """Return sum_k mean_n 1/2 (sum_positions a g)^2; channels are dimension 1 of a convolution, the last otherwise."""
    product = activation * gradient
    if isinstance(place, Call) and place.kind == "convolution":
        per_channel = product.sum(tuple(range(2, product.ndim)), dtype=torch.float64)
    else:
        per_channel = product.reshape(len(product), -1, product.shape[-1]).sum(1, dtype=torch.float64)
    return 0.5 * per_channel.square().mean(0).sum()


SALIENCY = Tap(LOSS_PASS, at=layers, reduce=_channel_saliency)


@register("fisher", paper="Theis et al., 2018, eq. 8; as in Abdelfattah et al., ICLR 2021, sec. 3.2")
def fisher(saliencies: Tapped = reads(SALIENCY)) -> float:
    r"""Sum over weights how much the loss would change if the weight's channel were removed.

    $$\Delta_{lk} = \frac{1}{2N} \sum_n \Big( \sum_{ij} a_{lnkij} \frac{\partial L}{\partial a_{lnkij}} \Big)^2, \qquad
    \text{fisher} = \sum_l \frac{C_l}{g_l} k_l^2 \sum_k \Delta_{lk}$$

    Here a is the output `(N, K, H, W)` of a convolution or linear layer, before its norm. The authors give the saliency
    of a channel to each of its weights and add these, hence the factor. L is a mean over the batch, so the score falls
    with the batch size: never compare scores of different batch sizes. The authors' code holds the channel values in
    float32; here they are float64.
    """
    total = 0.0
    for place, saliency in saliencies:
        assert isinstance(place, Call)
        total += math.prod(place.weight_shape) // place.outputs * saliency
    return total
