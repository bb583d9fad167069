"""TPC: the complexity of the convolutions of the network."""

from __future__ import annotations

import math

from ..errors import NotApplicableError
from .passes import OPERATIONS, Call, Operations
from .registry import reads, register


@register("tpc", paper="TPC-NAS (as in their software)")
def tpc(operations: Operations = reads(OPERATIONS)) -> float:
    r"""Add up over convolutions the logarithm of kernel area times channels over stride area.

    $$\sum_l \log \frac{K_l \, k_l^2}{s_l^2}$$

    Here $K_l$ is the number of output channels (1 for a depthwise convolution), $k_l$ the kernel size and $s_l$ the
    stride.

    Raises:
        NotApplicableError: The network has no convolution, or one that runs for a part of the images.
    """
    operations.covered("products", "the proxy reads all convolutions")
    found = (call for call in operations.running if call.name in {"conv2d", "conv_transpose2d"})
    convolutions = operations.for_all_images(found)
    if not convolutions:
        raise NotApplicableError("the network has no convolution")
    return sum(_complexity(convolution) for convolution in convolutions)


def _complexity(convolution: Call) -> float:
    depthwise = convolution.groups == convolution.seen[1] > 1
    channels = 1 if depthwise else convolution.outputs
    return math.log(channels * math.prod(convolution.kernel) / math.prod(convolution.stride))
