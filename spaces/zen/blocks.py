"""Super blocks: their texts, and the convolutions that they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from ...errors import bad_architecture
from ..convolutions import Conv

#: The most super blocks of a network, and the most sub-layers of a super block, that are read.
MOST_BLOCKS, MOST_LAYERS = 64, 99
COLOURS = 3

_NUMBER = r"([1-9][0-9]{0,3})"
_BLOCK = re.compile(
    rf"(SuperConvK[1357]BNRELU|SuperResK([357])K\2|SuperResK1K[357]K1)\({_NUMBER},{_NUMBER},([12]),"
    rf"(?:{_NUMBER},)?([1-9][0-9]?)\)"
)

Shortcut = Literal["none", "identity", "projection"]


class Unit(NamedTuple):
    """Convolutions with a batch norm after each and a ReLU between them; the sum with a shortcut; a ReLU."""

    convolutions: tuple[Conv, ...]
    shortcut: Shortcut

    @property
    def projection(self) -> Conv:
        """The convolution of a shortcut that is a projection. It has a bias, which `Conv` does not count."""
        stride = next((c.stride for c in self.convolutions if c.stride != (1, 1)), (1, 1))
        return Conv(self.convolutions[0].inputs, self.convolutions[-1].outputs, (1, 1), stride)


class Block(NamedTuple):
    """A super block.

    Attributes:
        kind: Name of its class in the authors' code: `SuperConvK3BNRELU`, `SuperResK3K3` or `SuperResK1K3K1`, with
            another kernel in place of 3.
        inputs: Channels before it.
        outputs: Channels after it.
        stride: Stride of its first unit.
        bottleneck: Channels inside of its units; 0 for `SuperConv`, which has none.
        layers: Number of sub-layers.
    """

    kind: str
    inputs: int
    outputs: int
    stride: int
    bottleneck: int
    layers: int

    def __str__(self) -> str:
        """Return the text, the inverse of `parse`."""
        numbers = (self.inputs, self.outputs, self.stride, *([self.bottleneck] * self.is_residual), self.layers)
        return f"{self.kind}({','.join(map(str, numbers))})"

    @property
    def is_residual(self) -> bool:
        """Whether its units have shortcuts."""
        return self.kind.startswith("SuperRes")

    def units(self) -> Iterator[Unit]:
        """Yield the units from the first to the last: two of every sub-layer of a `SuperResK1K3K1`, otherwise one."""
        kernel = max(int(digit) for digit in re.findall("[0-9]", self.kind))
        twice = self.kind.startswith("SuperResK1")
        width = self.inputs
        for place in range(self.layers * (2 if twice else 1)):
            stride = 1 if place else self.stride
            shortcut: Shortcut = "none" if not self.is_residual else "identity" if place else "projection"
            yield Unit(tuple(self._convolutions(kernel, width, stride)), shortcut)
            width = self.outputs

    def _convolutions(self, kernel: int, width: int, stride: int) -> Iterator[Conv]:
        square, strides, inner = (kernel, kernel), (stride, stride), self.bottleneck
        if not self.is_residual:
            yield Conv(width, self.outputs, square, strides)
        elif self.kind.startswith("SuperResK1"):
            yield Conv(width, inner, (1, 1))
            yield Conv(inner, inner, square, strides)
            yield Conv(inner, self.outputs, (1, 1))
        else:
            yield Conv(width, inner, square, strides)
            yield Conv(inner, self.outputs, square)


def text(blocks: Iterable[Block]) -> str:
    """Return the text of a network."""
    return "".join(map(str, blocks))


def parse(architecture: str) -> list[Block]:
    """Read the super blocks of a network, from the first to the last.

    Raises:
        ArchitectureError: The text has another form, or a block does not take the channels of the block before it.

    Example:
        >>> parse("SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,1,8,1)")[1].outputs
        16
    """
    found: list[Block] = []
    at, width = 0, COLOURS
    while at < len(architecture):
        match = _BLOCK.match(architecture, at)
        if match is None or bool(match[6]) != match[1].startswith("SuperRes"):
            raise bad_architecture(
                architecture,
                f"at character {at + 1}: expected SuperConvK3BNRELU(inputs,outputs,stride,layers), "
                "SuperResK3K3(inputs,outputs,stride,bottleneck,layers) or SuperResK1K3K1(...), with kernels 3, 5 or 7",
            )
        block = Block(match[1], *(int(match[group] or 0) for group in (3, 4, 5, 6, 7)))
        if block.inputs != width:
            raise bad_architecture(
                architecture,
                f"block {len(found) + 1}: expected {width} inputs, the channels before it, got {block.inputs}",
            )
        found.append(block)
        at, width = match.end(), block.outputs
        if len(found) > MOST_BLOCKS:
            raise bad_architecture(architecture, f"expected at most {MOST_BLOCKS} super blocks")
    if not found:
        raise bad_architecture(architecture, "expected super blocks, got an empty text")
    return found


def layers(blocks: Iterable[Block]) -> int:
    """Return the number of layers as the authors' code counts them: the sub-layers of all super blocks."""
    return sum(block.layers for block in blocks)
