"""The networks of the Zen-NAS space, with shortcuts as they are trained, and without as they are scored."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ..convolutions import Conv
from .blocks import Block, Unit

#: The term that batch norms add to a variance, as in the authors' code.
EPSILON = 1e-3


def _conv_bn(convolution: Conv, *, bias: bool = False) -> nn.Sequential:
    layer = convolution.build()
    if bias:
        layer = nn.Conv2d(*convolution[:4])
    return nn.Sequential(layer, nn.BatchNorm2d(convolution.outputs, eps=EPSILON))


class UnitModule(nn.Module):
    """A unit: its convolutions, the sum with a shortcut if it has one, and a ReLU."""

    def __init__(self, unit: Unit, *, shortcuts: bool) -> None:
        super().__init__()
        first, *others = unit.convolutions
        self.branch = nn.Sequential(_conv_bn(first))
        for convolution in others:
            self.branch.extend((nn.ReLU(), _conv_bn(convolution)))
        self.shortcut = unit.shortcut if shortcuts else "none"
        if self.shortcut == "projection":
            self.projection = _conv_bn(unit.projection, bias=True)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        y: Tensor = self.branch(x)
        if self.shortcut == "projection":
            y = y + self.projection(x)
        elif self.shortcut == "identity":
            y = y + x
        output: Tensor = self.relu(y)
        return output


class Network(nn.Module):
    """A whole network: super blocks, global pooling, and a linear classifier, in PyTorch's default initialisation."""

    def __init__(self, blocks: Sequence[Block], num_classes: int, *, shortcuts: bool = True) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(nn.Sequential(*(UnitModule(unit, shortcuts=shortcuts) for unit in block.units())) for block in blocks)
        )
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(blocks[-1].outputs, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to logits `(N, num_classes)`."""
        logits: Tensor = self.classifier(self.global_pooling(self.blocks(x)).flatten(1))
        return logits
