"""SNIP: connection sensitivity."""

from __future__ import annotations

from .passes import LOSS, Layers
from .registry import reads, register


@register("snip", paper="Lee et al., SNIP, ICLR 2019, eq. 4; summed as in Abdelfattah et al., ICLR 2021")
def snip(layers: Layers = reads(LOSS)) -> float:
    r"""Sum how much the loss would change if each weight were removed.

    $$\text{snip} = \sum_l \sum_{w \in W_l} \left| w \, \frac{\partial L}{\partial w} \right|$$

    The sum is over convolution and linear weights. L is the mean cross entropy, and batch norm is in train mode. The
    authors differentiate with respect to a mask of ones that multiplies the weights, which gives the same score.
    """
    return sum(float((weight * gradient).abs().sum()) for weight, gradient in layers)
