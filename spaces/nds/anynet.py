"""The plain and residual networks of Network Design Spaces: stages of equal blocks, with free depths and widths."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from ...datasets.tasks import Task
from ...errors import bad_architecture
from ...proxies.operations.skip import Skip
from .. import convolutions
from ..convolutions import Conv, ConvBN, output_side
from ..space import SPACES, Sizes
from .space import Nds, space_name, without_run

#: The sweeps of plain and residual networks; a sweep has the name of its file.
SWEEPS = (
    *("ResNet", "ResNet-B", "Vanilla", "ResNeXt-A", "ResNeXt-A_in", "ResNeXt-B", "ResNeXt-B_in"),
    *(f"{family}_lr-wd{task}" for family in ("ResNet", "Vanilla") for task in ("", "_in")),
    *(f"{family}_{runs}" for family in ("ResNet", "Vanilla") for runs in ("reruns", "rng1", "rng2", "rng3")),
)
#: The three kinds of blocks, with the beginning of their names in records.
BLOCKS = {"vanilla": "double_plain_block", "basic": "res_basic_block", "bottleneck": "res_bottleneck_block"}

_NUMBERS = r"([1-9][0-9]{0,3}(?:,[1-9][0-9]{0,3}){1,7})"
_RATIOS = r"([0-9](?:\.[0-9]{1,17})?(?:,[0-9](?:\.[0-9]{1,17})?){1,7})"
_FORM = re.compile(
    rf"({'|'.join(BLOCKS)})\(ds={_NUMBERS} ws={_NUMBERS} ss={_NUMBERS}(?: bot_muls={_RATIOS} num_gs={_NUMBERS})?\)"
)


class Unit(NamedTuple):
    """One block: the channels before and after it, its stride, and the channels and groups inside a bottleneck."""

    inputs: int
    outputs: int
    stride: int
    hidden: int = 0
    groups: int = 1


class AnyNet(NamedTuple):
    """A network: the kind of its blocks, and lists with one entry per stage, the first for the stem.

    The lists are depths, widths and strides, and the ratios and groups of bottlenecks.
    """

    block: str
    ds: tuple[int, ...]
    ws: tuple[int, ...]
    ss: tuple[int, ...]
    bot_muls: tuple[float, ...] = ()
    num_gs: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return the text, the inverse of `parse`."""
        lists = [
            f"{name}={','.join(map(_spell, getattr(self, name)))}" for name in self._fields[1:] if getattr(self, name)
        ]
        return f"{self.block}({' '.join(lists)})"

    def units(self) -> Iterator[Unit]:
        """Yield the blocks from the first to the last."""
        width = self.ws[0]
        for stage in range(1, len(self.ds)):
            outputs = self.ws[stage]
            inner = (round(outputs * self.bot_muls[stage]), self.num_gs[stage]) if self.bot_muls else (0, 1)
            for position in range(self.ds[stage]):
                yield Unit(width, outputs, 1 if position else self.ss[stage], *inner)
                width = outputs


def parse(architecture: str) -> AnyNet:
    """Read the kind of the blocks and the lists with one number per stage.

    Raises:
        ArchitectureError: The text has another form, or describes impossible blocks.

    Example:
        >>> parse("bottleneck(ds=1,16,1,4 ws=16,64,128,16 ss=1,1,2,2 bot_muls=0,0.25,0.25,0.25 num_gs=1,2,1,2)").ds
        (1, 16, 1, 4)
    """
    found = _FORM.fullmatch(architecture)
    if found is None:
        raise bad_architecture(
            architecture,
            "expected basic(ds=1,12,12,12 ws=16,24,24,40 ss=1,1,2,2), or vanilla(...), or bottleneck(...) with "
            "bot_muls=... num_gs=...",
        )
    block, *lists = found.groups()
    ds, ws, ss, num_gs = (tuple(map(int, lists[i].split(","))) if lists[i] else () for i in (0, 1, 2, 4))
    net = AnyNet(block, ds, ws, ss, tuple(map(float, lists[3].split(","))) if lists[3] else (), num_gs)
    if (net.block == "bottleneck") != bool(net.bot_muls):
        raise bad_architecture(architecture, "expected bot_muls and num_gs of bottlenecks, and of no other block")
    if len({len(numbers) for numbers in net[1:] if numbers}) != 1 or net.ds[0] != 1:
        raise bad_architecture(architecture, "expected lists of equal length, and a depth of 1 first, for the stem")
    if any(unit.groups > unit.hidden or unit.hidden % unit.groups for unit in net.units() if net.bot_muls):
        raise bad_architecture(architecture, "expected num_gs that divide the channels of the bottlenecks")
    return net


def _spell(value: float) -> str:
    return str(int(value)) if int(value) == value else repr(value)


def branch(block: str, unit: Unit) -> list[Conv]:
    """Return the convolutions of a block. A batch norm follows each, and a ReLU follows each but the last."""
    inputs, outputs, stride, hidden, groups = unit
    if block == "bottleneck":
        return [
            Conv(inputs, hidden, (1, 1)),
            Conv(hidden, hidden, (3, 3), (stride, stride), groups=groups),
            Conv(hidden, outputs, (1, 1)),
        ]
    return [Conv(inputs, outputs, (3, 3), (stride, stride)), Conv(outputs, outputs, (3, 3))]


def shortcut(block: str, unit: Unit) -> Conv | None:
    """Return the convolution of a shortcut, which a batch norm follows; None if it is an identity or absent."""
    if block == "vanilla" or (unit.stride == 1 and unit.inputs == unit.outputs):
        return None
    return Conv(unit.inputs, unit.outputs, (1, 1), (unit.stride, unit.stride))


class Block(nn.Module):
    """A block: its convolutions, the sum with a shortcut unless the block is vanilla, and a ReLU."""

    def __init__(self, block: str, unit: Unit) -> None:
        super().__init__()
        first, *others = branch(block, unit)
        self.branch = nn.Sequential(ConvBN(first))
        for convolution in others:
            self.branch.extend((nn.ReLU(), ConvBN(convolution)))
        self.shortcut: nn.Module | None = None
        if block != "vanilla":
            projection = shortcut(block, unit)
            self.shortcut = ConvBN(projection) if projection else Skip()
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        y = self.branch(x)
        output: Tensor = self.relu(y if self.shortcut is None else self.shortcut(x) + y)
        return output


class Stem(NamedTuple):
    """The first layer of a network: its kernel, its stride, and whether a max pooling of stride two follows."""

    kernel: int
    stride: int = 1
    pool: bool = False

    def convolution(self, width: int) -> Conv:
        """Return the convolution."""
        return Conv(3, width, (self.kernel, self.kernel), (self.stride, self.stride))


#: The stem for CIFAR, and the two stems for ImageNet: those of residual and of plain networks.
CIFAR, RESIDUAL, SIMPLE = Stem(3), Stem(7, 2, pool=True), Stem(3, 2)


class Network(nn.Module):
    """A whole network. As in its authors' code, weights are normal, scaled by the output's size; biases are zero."""

    def __init__(self, net: AnyNet, stem: Stem, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(ConvBN(stem.convolution(net.ws[0])), nn.ReLU())
        if stem.pool:
            self.stem.append(nn.MaxPool2d(3, 2, padding=1))
        self.blocks = nn.Sequential(*(Block(net.block, unit) for unit in net.units()))
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(net.ws[-1], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=math.sqrt(2 / (math.prod(module.kernel_size) * module.out_channels)))
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to logits `(N, num_classes)`."""
        features = self.blocks(self.stem(x))
        logits: Tensor = self.classifier(self.global_pooling(features).flatten(1))
        return logits


class NdsAnyNet(Nds):
    """A sweep of plain or residual networks.

    A text is a kind of block with the depths, widths and strides of all stages:
    `basic(ds=1,12,12,12 ws=16,24,24,40 ss=1,1,2,2)`. Bottlenecks also have ratios and groups. The first entry is the
    stem. On CIFAR the stem is a 3 x 3 convolution. On ImageNet it is not known for certain which stems were trained;
    here it is the stem of residual networks or, for vanilla blocks, a 3 x 3 convolution of stride two.
    """

    def __init__(self, sweep: str, folder: Path | None = None) -> None:
        super().__init__(sweep, folder)
        bottleneck = sweep.startswith(("ResNeXt", "ResNet-B"))
        self.block = "vanilla" if sweep.startswith("Vanilla") else "bottleneck" if bottleneck else "basic"
        self.stem = CIFAR if self.task == "cifar10" else SIMPLE if self.block == "vanilla" else RESIDUAL

    def net(self, architecture: str) -> AnyNet:
        """Read a network of the sweep.

        Raises:
            ArchitectureError: The text has another form, or blocks of another kind.
        """
        net = parse(without_run(architecture))
        if net.block != self.block:
            raise bad_architecture(architecture, f"expected {self.block}(...) in {self.name}")
        if self.task == "cifar10" and net.ss[0] != 1:
            raise bad_architecture(architecture, "expected a stride of 1 first, for the stem")
        return net

    def spell(self, architecture: str) -> str:
        """Return the text in the spelling of the table."""
        return str(self.net(architecture))

    def describe(self, net: Mapping[str, Any]) -> str:
        """Return the text of a record's network."""
        block = next((name for name, begin in BLOCKS.items() if net["block_type"].startswith(begin)), None)
        if block is None:
            raise ValueError(f"expected a block of {', '.join(BLOCKS.values())}, got {str(net['block_type'])[:40]}")
        lists = [tuple(net[name]) for name in ("ds", "ws", "ss")]
        return str(AnyNet(block, *lists, *(tuple(net.get(name) or ()) for name in ("bot_muls", "num_gs"))))

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        return Network(self.net(architecture), self.stem, task.num_classes)

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network."""
        net = self.net(architecture)
        blocks = [convolutions.Block([self.stem.convolution(net.ws[0])], task.image_size)]
        side = output_side(task.image_size, self.stem.stride)
        side = output_side(side) if self.stem.pool else side
        for unit in net.units():
            if (projection := shortcut(net.block, unit)) is not None:
                blocks.append(convolutions.Block([projection], side))
            for convolution in branch(net.block, unit):
                blocks.append(convolutions.Block([convolution], side))
                side = output_side(side, convolution.stride[0])
        return convolutions.sizes(blocks, net.ws[-1], task.num_classes)

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return the number of blocks, and the width of the last block."""
        net = self.net(architecture)
        return {"blocks": sum(net.ds[1:]), "width": net.ws[-1]}


for _sweep in SWEEPS:
    SPACES.add(space_name(_sweep), functools.partial(NdsAnyNet, _sweep))
