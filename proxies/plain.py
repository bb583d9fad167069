"""Plain: connection sensitivity with its sign."""

from __future__ import annotations

from .passes import LOSS, Layers
from .registry import reads, register


@register("plain", paper="Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021 (code only)")
def plain(layers: Layers = reads(LOSS)) -> float:
    r"""Sum weight times gradient, with the sign kept.

    $$\text{plain} = \sum_l \sum_{w \in W_l} w \, \frac{\partial L}{\partial w}$$

    The sum is over convolution and linear weights. L is the mean cross entropy, and batch norm is in train mode. A
    convolution before a batch norm is scale invariant, so its sum is zero except for round-off. Little more than the
    term of the classifier remains.
    """
    return sum(float((weight * gradient).sum()) for weight, gradient in layers)
