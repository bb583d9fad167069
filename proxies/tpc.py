"""TPC: the complexity of the convolutions of the network."""

from __future__ import annotations

import math

from torch import nn

from ..errors import NotApplicableError
from .passes.needs import named
from .probe import Probe
from .registry import register


@register("tpc", paper="TPC-NAS (as in their software)")
def tpc(probe: Probe) -> float:
    r"""Add up over convolutions the logarithm of kernel area times channels over stride area.

    $$\sum_l \log \frac{K_l \, k_l^2}{s_l^2}$$

    Here $K_l$ is the number of output channels (1 for a depthwise convolution), $k_l$ the kernel size and $s_l$ the
    stride. The network is not run.

    Raises:
        NotApplicableError: The network has no convolution.
    """
    convolutions = [probe.net.get_submodule(name) for name in named(probe.net, (nn.Conv2d,))]
    if not convolutions:
        raise NotApplicableError("the network has no convolution")
    return sum(_complexity(convolution) for convolution in convolutions if isinstance(convolution, nn.Conv2d))


def _complexity(convolution: nn.Conv2d) -> float:
    depthwise = convolution.groups == convolution.in_channels > 1
    channels = 1 if depthwise else convolution.out_channels
    return math.log(channels * math.prod(convolution.kernel_size) / math.prod(convolution.stride))
