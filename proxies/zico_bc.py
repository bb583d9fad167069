"""ZiCo-BC: ZiCo without its bias towards deep and narrow networks."""

from __future__ import annotations

import math

from torch import Tensor

from .passes import Layers, Tap, Tapped
from .passes.taps import Place, channels_of, layers
from .registry import reads, register
from .zico import HALVES, zico


def _bias(place: Place, activation: Tensor) -> float:
    """Return log(H W / sqrt(C)) of an output `(N, C, H, W)`, or `(N, ..., C)` of a linear layer."""
    channels = channels_of(place, activation)
    return math.log(activation[0].numel() / channels / math.sqrt(channels))


BIASES = Tap(HALVES[0].of.forward, at=layers, reduce=_bias)


@register(
    "zico_bc",
    paper="Bhardwaj et al., ZiCo-BC, ICCV workshops 2023, eq. 2 (from the paper's formula, no reference code)",
    batch_size=128,
)
def zico_bc(
    first: Layers = reads(HALVES[0]),
    second: Layers = reads(HALVES[1]),
    biases: Tapped = reads(BIASES),
    beta: float = 1.0,
) -> float:
    r"""Subtract from zico its bias towards deep and narrow networks.

    $$\text{zico} - \beta \sum_l \log \frac{H_l W_l}{\sqrt{C_l}}$$

    Here $H_l, W_l, C_l$ are the height, width and channels of the output of convolution or linear layer l. This follows
    the paper's formula, since its code is not public. The authors tune $\beta$ to the search space and name no default;
    it is 1 here.
    """
    return zico(first, second) - beta * float(sum(bias for _, bias in biases))
