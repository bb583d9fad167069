"""Convolutions as descriptions: the same description builds a layer and gives its sizes without building it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch import nn

from .space import Sizes


class Conv(NamedTuple):
    """A convolution without bias. At a stride of one, its output has the size of its input."""

    inputs: int
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: int = 1
    groups: int = 1

    @property
    def weights(self) -> int:
        """The number of weights."""
        return self.inputs // self.groups * self.outputs * self.kernel[0] * self.kernel[1]

    def build(self) -> nn.Conv2d:
        """Build the layer, in PyTorch's default initialisation."""
        height, width = (self.dilation * (k - 1) // 2 for k in self.kernel)
        return nn.Conv2d(*self[:4], padding=(height, width), dilation=self.dilation, groups=self.groups, bias=False)


class ConvBN(nn.Sequential):
    """A convolution without bias, then a batch norm."""

    def __init__(self, convolution: Conv) -> None:
        super().__init__(convolution.build(), nn.BatchNorm2d(convolution.outputs))


class Block(NamedTuple):
    """One or more convolutions and a batch norm, with the side of their square input."""

    convolutions: Sequence[Conv]
    side: int
    affine: bool = True


def output_side(side: int, stride: int = 2) -> int:
    """Return the side of a layer's output from the side of its input: side / stride, rounded up."""
    return -(-side // stride)


def sizes(blocks: Iterable[Block], features: int, num_classes: int) -> Sizes:
    """Return the sizes of a network of blocks and one linear classifier from `features` to `num_classes`."""
    params = macs = (features + 1) * num_classes
    for convolutions, side, affine in blocks:
        height = width = side
        for convolution in convolutions:
            height, width = map(output_side, (height, width), convolution.stride)
            params += convolution.weights
            macs += convolution.weights * height * width
        params += 2 * convolutions[-1].outputs * affine
    return Sizes(params, macs)
