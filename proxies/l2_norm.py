"""The norm of the weights."""

from __future__ import annotations

from torch import Tensor

from .passes import Weights
from .registry import reads, register


@register("l2_norm", paper="Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021 (code only)")
def l2_norm(weights: dict[str, Tensor] = reads(Weights())) -> float:
    r"""Sum the L2 norms of the weights of all convolution and linear layers.

    $$\text{l2\_norm} = \sum_l \lVert W_l \rVert_2$$

    The score is a sum of norms over layers, not the norm of all weights together. Biases and norm layers do not count.
    The proxy reads no data: with a fixed initialisation it counts layers, weighted by their width.
    """
    return sum(float(weight.norm()) for weight in weights.values())
