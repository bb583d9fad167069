"""The number of convolutions."""

from __future__ import annotations

from torch import nn

from .passes.needs import named
from .probe import Probe
from .registry import register


@register("conv_count", paper="structural baseline")
def conv_count(probe: Probe) -> float:
    r"""Count the convolutions of the network.

    $$|\{l : l \text{ is a convolution}\}|$$
    """
    return float(len(named(probe.net, (nn.Conv1d, nn.Conv2d, nn.Conv3d))))
