"""The number of ReLUs."""

from __future__ import annotations

from torch import nn

from .passes.needs import named
from .probe import Probe
from .registry import register


@register("relu_count", paper="structural baseline")
def relu_count(probe: Probe) -> float:
    r"""Count the ReLUs of the network.

    $$|\{l : l \text{ is a ReLU}\}|$$
    """
    return float(len(named(probe.net, (nn.ReLU, nn.ReLU6))))
