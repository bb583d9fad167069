"""ZiCo-BC: ZiCo without its bias towards deep and narrow networks."""

from __future__ import annotations

import math

from torch import Tensor

from .passes.needs import Tap, forward_of, layers
from .probe import Probe
from .registry import register
from .zico import TWO, zico


def _bias(activation: Tensor) -> float:
    """Return log(H W / sqrt(C)) of an output `(N, C, H, W)`, or `(N, ..., C)` of a linear layer."""
    channels = activation.shape[1] if activation.ndim == 4 else activation.shape[-1]
    return math.log(activation[0].numel() / channels / math.sqrt(channels))


BIASES = Tap(forward_of(TWO[0]), at=layers, reduce=_bias)


@register(
    "zico_bc",
    needs=[*TWO, BIASES],
    paper="Bhardwaj et al., ZiCo-BC, ICCV workshops 2023, eq. 2 (from the paper's formula, no reference code)",
    batch_size=128,
)
def zico_bc(probe: Probe, beta: float = 1.0) -> float:
    r"""Subtract from zico its bias towards deep and narrow networks.

    $$\text{zico} - \beta \sum_l \log \frac{H_l W_l}{\sqrt{C_l}}$$

    Here $H_l, W_l, C_l$ are the height, width and channels of the output of convolution or linear layer l. This follows
    the paper's formula, since its code is not public. The authors tune $\beta$ to the search space and name no default;
    it is 1 here.
    """
    biases: list[float] = [bias for _, bias in probe.tap(BIASES)]
    return zico(probe) - beta * sum(biases)
