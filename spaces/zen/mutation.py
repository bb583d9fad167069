"""The mutations of Zen-NAS: a super block is drawn anew, near to the one that it replaces."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from .blocks import Block, parse, text

#: What a width is multiplied by, and the bounds of widths. Widths are multiples of the least one.
FACTORS = (2.5, 2.0, 1.5, 1.25, 1.0, 1 / 1.25, 1 / 1.5, 1 / 2, 1 / 2.5)
NARROWEST, WIDEST = 8, 2048
#: Kernels with their frequencies. The authors' code joins lists that grow, so the last kernel stands in fewer of them.
KERNELS = {3: 3, 5: 3, 7: 2}
#: A super block of so many sub-layers becomes two of half as many.
SPLIT_AT = 6

_RESIDUAL = [f"SuperResK{first}K{{kernel}}{last}" for first, last in (("1", "K1"), ("{kernel}", ""))]
#: The kinds of residual blocks, each as often as its kernel is drawn.
KINDS = [kind.format(kernel=kernel) for kind in _RESIDUAL for kernel, times in KERNELS.items() for _ in range(times)]


def widths(width: int) -> list[int]:
    """Return the widths near to a width, from the widest.

    Example:
        >>> widths(64)
        [160, 128, 96, 80, 64, 48, 40, 32, 24]
    """
    near = (min(WIDEST, max(NARROWEST, width * factor)) for factor in FACTORS)
    return sorted({NARROWEST * round(value / NARROWEST) for value in near}, reverse=True)


def depths(layers: int) -> list[int]:
    """Return the numbers of sub-layers near to a number: up to two more or fewer, and at least one."""
    return [near for near in range(layers + 2, layers - 3, -1) if near >= 1]


class Choices(NamedTuple):
    """The values that a super block may take. A value that is listed twice is twice as likely."""

    kinds: list[str]
    outputs: list[int]
    bottlenecks: list[int]
    layers: list[int]

    def draw(self, rng: random.Random, block: Block) -> Block:
        """Return a super block with the inputs and the stride of another one, and all other values drawn."""
        kind, outputs = rng.choice(self.kinds), rng.choice(self.outputs)
        bottleneck, layers = rng.choice(self.bottlenecks), rng.choice(self.layers)
        return Block(kind, block.inputs, outputs, block.stride, bottleneck, layers)


def choices(block: Block) -> Choices:
    """Return the values near to those of a super block. A `SuperConv` keeps its kind, and has one sub-layer."""
    if not block.is_residual:
        return Choices([block.kind], widths(block.outputs), [0], [1])
    return Choices(KINDS, widths(block.outputs), widths(block.bottleneck), depths(block.layers))


def mutate(rng: random.Random, architecture: str, places: int = 1) -> str:
    """Return a network with super blocks at up to `places` places drawn anew; a place that is drawn twice changes once.

    Raises:
        ArchitectureError: The text does not describe a network.
    """
    blocks = parse(architecture)
    for place in dict.fromkeys(rng.randrange(len(blocks)) for _ in range(places)):
        blocks[place] = choices(blocks[place]).draw(rng, blocks[place])
    return text(split(linked(blocks)))


def linked(blocks: Sequence[Block]) -> list[Block]:
    """Return super blocks that take the channels of the block before them."""
    inputs = [blocks[0].inputs, *(block.outputs for block in blocks)]
    return [block._replace(inputs=width) for block, width in zip(blocks, inputs, strict=False)]


def split(blocks: Sequence[Block]) -> list[Block]:
    """Return super blocks in which every residual one of six or more sub-layers has become two of three.

    The second has a stride of one. As in the authors' code, sub-layers beyond six are lost.
    """
    found: list[Block] = []
    for block in blocks:
        if block.is_residual and block.layers >= SPLIT_AT:
            half = SPLIT_AT // 2
            found.append(block._replace(layers=half))
            found.append(block._replace(inputs=block.outputs, stride=1, layers=SPLIT_AT - half))
        else:
            found.append(block)
    return found
