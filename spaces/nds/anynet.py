"""The plain and residual networks of Network Design Spaces: stages of equal blocks, of free depths and widths."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from ...datasets.tasks import Task
from ...errors import ArchitectureError
from ..cells import Conv
from ..space import SPACES
from .space import Nds, space_name, without_run

#: Sweeps, by the names of their files.
SWEEPS = (
    *("ResNet", "ResNet-B", "Vanilla", "ResNeXt-A", "ResNeXt-A_in", "ResNeXt-B", "ResNeXt-B_in"),
    *(f"{family}_lr-wd{task}" for family in ("ResNet", "Vanilla") for task in ("", "_in")),
    *(f"{family}_{runs}" for family in ("ResNet", "Vanilla") for runs in ("reruns", "rng1", "rng2", "rng3")),
)
#: Blocks, and how the records' names of them begin.
BLOCKS = {"vanilla": "double_plain_block", "basic": "res_basic_block", "bottleneck": "res_bottleneck_block"}

_NUMBERS = r"([1-9][0-9]{0,3}(?:,[1-9][0-9]{0,3}){1,7})"
_RATIOS = r"([0-9](?:\.[0-9]{1,17})?(?:,[0-9](?:\.[0-9]{1,17})?){1,7})"
_FORM = re.compile(
    rf"({'|'.join(BLOCKS)})\(ds={_NUMBERS} ws={_NUMBERS} ss={_NUMBERS}(?: bot_muls={_RATIOS} num_gs={_NUMBERS})?\)"
)


class Unit(NamedTuple):
    """A block: channels before and after, its stride, and, of a bottleneck, the channels and groups inside."""

    inputs: int
    outputs: int
    stride: int
    hidden: int = 0
    groups: int = 1


class AnyNet(NamedTuple):
    """A network: its block, and by stage depths, widths, strides, ratios and groups of bottlenecks.

    The first entry is the stem, one layer of its own form.
    """

    block: str
    ds: tuple[int, ...]
    ws: tuple[int, ...]
    ss: tuple[int, ...]
    bot_muls: tuple[float, ...] = ()
    num_gs: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Write it, the inverse of `parse`."""
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
    """Read a block and lists of one number per stage, the first of them the stem's.

    Raises:
        ArchitectureError: The text has another form, or blocks that cannot be.

    Example:
        >>> parse("bottleneck(ds=1,16,1,4 ws=16,64,128,16 ss=1,1,2,2 bot_muls=0,0.25,0.25,0.25 num_gs=1,2,1,2)").ds
        (1, 16, 1, 4)
    """
    shown = f"architecture '{architecture[:100]}'"
    found = _FORM.fullmatch(architecture)
    if found is None:
        raise ArchitectureError(
            f"{shown}: expected basic(ds=1,12,12,12 ws=16,24,24,40 ss=1,1,2,2), or vanilla(...), or bottleneck(...) "
            "with bot_muls=... num_gs=..."
        )
    block, *lists = found.groups()
    ds, ws, ss, num_gs = (tuple(map(int, lists[i].split(","))) if lists[i] else () for i in (0, 1, 2, 4))
    net = AnyNet(block, ds, ws, ss, tuple(map(float, lists[3].split(","))) if lists[3] else (), num_gs)
    if (net.block == "bottleneck") != bool(net.bot_muls):
        raise ArchitectureError(f"{shown}: expected bot_muls and num_gs of bottlenecks, and of no other block")
    if len({len(numbers) for numbers in net[1:] if numbers}) != 1 or net.ds[0] != 1:
        raise ArchitectureError(f"{shown}: expected lists of equal length, and a depth of 1 first, for the stem")
    if any(unit.groups > unit.hidden or unit.hidden % unit.groups for unit in net.units() if net.bot_muls):
        raise ArchitectureError(f"{shown}: expected num_gs that divide the channels of the bottlenecks")
    return net


def _spell(value: float) -> str:
    return str(int(value)) if int(value) == value else repr(value)


def branch(block: str, unit: Unit) -> list[Conv]:
    """Return the convolutions of a block, each followed by a batch norm, and by a ReLU but the last."""
    inputs, outputs, stride, hidden, groups = unit
    if block == "bottleneck":
        return [
            Conv(inputs, hidden, (1, 1)),
            Conv(hidden, hidden, (3, 3), (stride, stride), groups=groups),
            Conv(hidden, outputs, (1, 1)),
        ]
    return [Conv(inputs, outputs, (3, 3), (stride, stride)), Conv(outputs, outputs, (3, 3))]


def shortcut(block: str, unit: Unit) -> Conv | None:
    """Return the convolution of a shortcut, followed by a batch norm; none where it is an identity or not there."""
    if block == "vanilla" or (unit.stride == 1 and unit.inputs == unit.outputs):
        return None
    return Conv(unit.inputs, unit.outputs, (1, 1), (unit.stride, unit.stride))


class ConvBN(nn.Sequential):
    """Convolution without bias, batch norm."""

    def __init__(self, convolution: Conv) -> None:
        super().__init__(convolution.build(), nn.BatchNorm2d(convolution.outputs))


class Block(nn.Module):
    """A block: its convolutions, plus the shortcut unless it is vanilla, and a ReLU."""

    def __init__(self, block: str, unit: Unit) -> None:
        super().__init__()
        first, *others = branch(block, unit)
        self.branch = nn.Sequential(ConvBN(first))
        for convolution in others:
            self.branch.extend((nn.ReLU(), ConvBN(convolution)))
        self.shortcut: nn.Module | None = None
        if block != "vanilla":
            projection = shortcut(block, unit)
            self.shortcut = ConvBN(projection) if projection else nn.Identity()
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        y = self.branch(x)
        output: Tensor = self.relu(y if self.shortcut is None else self.shortcut(x) + y)
        return output


class Stem(NamedTuple):
    """The first layer: its kernel and stride, and whether a max pool of stride two follows."""

    kernel: int
    stride: int = 1
    pool: bool = False

    def convolution(self, width: int) -> Conv:
        """Return its convolution."""
        return Conv(3, width, (self.kernel, self.kernel), (self.stride, self.stride))


#: For CIFAR, and for ImageNet in the forms of residual and plain networks.
CIFAR, RESIDUAL, SIMPLE = Stem(3), Stem(7, 2, pool=True), Stem(3, 2)


class Network(nn.Module):
    """A whole network, in the initialisation of its authors' code: normal weights, by outgoing size, and zero biases.

    Args:
        net: Its block, depths and widths.
        stem: Its first layer.
        num_classes: Of the linear classifier.
    """

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


def _convolutions(net: AnyNet, stem: Stem, image_size: int) -> Iterator[tuple[Conv, int]]:
    """Yield every convolution with the side of its output."""
    first = stem.convolution(net.ws[0])
    side = -(-image_size // stem.stride)
    yield first, side
    side = -(-side // 2) if stem.pool else side
    for unit in net.units():
        smaller = -(-side // unit.stride)
        if (projection := shortcut(net.block, unit)) is not None:
            yield projection, smaller
        for convolution in branch(net.block, unit):
            side = -(-side // convolution.stride[0])
            yield convolution, side


class NdsAnyNet(Nds):
    """A sweep of plain or residual networks.

    A text is a block and, by stage, depths, widths and strides: `basic(ds=1,12,12,12 ws=16,24,24,40 ss=1,1,2,2)`;
    bottlenecks have ratios and groups besides. The first entry is the stem, whose form is that of the task: on CIFAR a
    3 x 3 convolution; on ImageNet, where what was trained is not known for certain, that of residual networks or, for
    vanilla ones, a 3 x 3 convolution of stride two.
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
            raise ArchitectureError(f"architecture '{architecture[:100]}': expected {self.block}(...) in {self.name}")
        if self.task == "cifar10" and net.ss[0] != 1:
            raise ArchitectureError(f"architecture '{architecture[:100]}': expected a stride of 1 first, the stem's")
        return net

    def spell(self, architecture: str) -> str:
        """Return the text in its own spelling."""
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

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters."""
        net = self.net(architecture)
        convolutions = _convolutions(net, self.stem, 1)
        return sum(c.weights + 2 * c.outputs for c, _ in convolutions) + (net.ws[-1] + 1) * task.num_classes

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates of one image, and one per class."""
        net = self.net(architecture)
        convolutions = _convolutions(net, self.stem, task.image_size)
        return sum(c.weights * side**2 for c, side in convolutions) + (net.ws[-1] + 1) * task.num_classes

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return how many blocks there are, and the width of the last."""
        net = self.net(architecture)
        return {"blocks": sum(net.ds[1:]), "width": net.ws[-1]}


for _sweep in SWEEPS:
    SPACES.add(space_name(_sweep), functools.partial(NdsAnyNet, _sweep))
