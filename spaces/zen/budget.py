"""What the authors' code of Zen-NAS holds against its limits: counts that differ from the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .blocks import Block


class Budget(NamedTuple):
    """The sizes of a network as the authors' code counts them.

    Attributes:
        params: Weights of convolutions; one value for each channel of a batch norm, where there are two; for a
            projection its weights and one value for each channel, where there are three; weights of the classifier, and
            one for its bias.
        macs: Multiply-accumulates of convolutions and of the classifier, and one for each output of a batch norm; for a
            projection those at a resolution that is divided by its stride twice.
    """

    params: int
    macs: int


def budget(blocks: Sequence[Block], side: int, num_classes: int) -> Budget:
    """Return the sizes of a network for square images of a side, as the authors' code counts them."""
    features = blocks[-1].outputs
    params, macs = features * num_classes + 1, features * num_classes
    for unit in (unit for block in blocks for unit in block.units()):
        for convolution in unit.convolutions:
            stride = convolution.stride[0]
            params += convolution.weights + convolution.outputs
            macs += convolution.weights * side**2 // stride**2
            side //= stride
            macs += convolution.outputs * side**2
        if unit.shortcut == "projection":
            projection = unit.projection
            params += projection.weights + projection.outputs
            macs += int((projection.weights + projection.outputs) * (side / projection.stride[0]) ** 2)
    return Budget(params, macs)
