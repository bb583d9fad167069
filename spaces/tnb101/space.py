"""TransNAS-Bench-101: 4,096 cells in a fixed skeleton and 3,256 skeletons of a fixed block, trained on seven tasks."""

from __future__ import annotations

import functools
import itertools
import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...datasets.files.registry import find
from ...datasets.tasks import Task
from ...errors import ArchitectureError
from ..nb201 import network as nb201
from ..nb201.network import EDGES, Cell, ReLUConvBN
from ..space import SPACES, Space, Truth
from ..table import PERCENT, by_index, number, read_csv
from .heads import decoder

#: Operations by their digit; edges are in NAS-Bench-201's order.
OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3")
CHANNELS = 64
CELLS_PER_MODULE = 2

_TOP1 = "validation top-1 accuracy"
_SSIM = "structural similarity (SSIM) on the validation set, 1 at best, no percentage"
#: By task, the quantity and between what it lies.
_QUANTITIES = {
    "class_scene": (_TOP1, PERCENT),
    "class_object": (_TOP1, PERCENT),
    "room_layout": ("negative loss on the validation set, 0 at best, no percentage", (-math.inf, 0.0)),
    "jigsaw": (_TOP1, PERCENT),
    "segmentsemantic": ("validation accuracy of pixels", PERCENT),
    "normal": (_SSIM, (-1.0, 1.0)),
    "autoencoder": (_SSIM, (-1.0, 1.0)),
}


class Code(NamedTuple):
    """A network: a digit per module, and the cell that all modules repeat, None for a residual block."""

    macro: str
    cell: Cell | None


class Shape(NamedTuple):
    """What a cell maps: channels to channels, and its stride."""

    inputs: int
    outputs: int
    stride: int


def parse_micro(architecture: str) -> Code:
    """Read `64-41414-a_bc_def`, a group of digits per node, its digit j the operation on the edge from node j.

    Raises:
        ArchitectureError: The text has another form.

    Example:
        >>> parse_micro("64-41414-1_02_333").cell
        ('skip_connect', 'none', 'nor_conv_1x1', 'nor_conv_3x3', 'nor_conv_3x3', 'nor_conv_3x3')
    """
    found = re.fullmatch(r"64-(41414)-([0-3])_([0-3]{2})_([0-3]{3})", architecture)
    if found is None:
        raise ArchitectureError(
            f"architecture '{architecture[:100]}': expected 64-41414-a_bc_def, each letter a digit 0 (none), 1 (skip), "
            "2 (1 x 1 convolution) or 3 (3 x 3 convolution)"
        )
    macro, *nodes = found.groups()
    return Code(macro, cast("Cell", tuple(OPERATIONS[int(digit)] for digit in "".join(nodes))))


def parse_macro(architecture: str) -> Code:
    """Read `64-<4 to 6 digits>-basic`: a module is 1 plain, 2 twice as wide, 3 of stride two, 4 both.

    Raises:
        ArchitectureError: The text has another form, or too few or too many modules widen or stride.

    Example:
        >>> parse_macro("64-1234-basic")
        Code(macro='1234', cell=None)
    """
    found = re.fullmatch(r"64-([1-4]{4,6})-basic", architecture)
    if found is None or not _is_macro(found[1]):
        raise ArchitectureError(
            f"architecture '{architecture[:100]}': expected 64-<4 to 6 digits>-basic, each 1 (plain), 2 (twice as "
            "wide), 3 (stride two) or 4 (both), one to four of them 3 or 4, one to three of them 2 or 4"
        )
    return Code(found[1], None)


def reaches_output(code: Code) -> bool:
    """Tell whether any path leads from the input to the output; 169 cells have none."""
    return code.cell is None or nb201.reaches_output(code.cell)


def strides(macro: str) -> int:
    """Count the modules that halve the resolution."""
    return macro.count("3") + macro.count("4")


def widenings(macro: str) -> int:
    """Count the modules that double the channels."""
    return macro.count("2") + macro.count("4")


def _is_macro(macro: str) -> bool:
    return 1 <= strides(macro) <= 4 and 1 <= widenings(macro) <= 3


@functools.cache
def _macros() -> dict[str, int]:
    digits = ("".join(digits) for length in (4, 5, 6) for digits in itertools.product("1234", repeat=length))
    return {macro: index for index, macro in enumerate(filter(_is_macro, digits))}


def shapes(macro: str) -> Iterator[Shape]:
    """Give the shape of every cell: the first of a module strides and widens, the second keeps its shape.

    Example:
        >>> [tuple(shape) for shape in shapes("41")]
        [(64, 128, 2), (128, 128, 1), (128, 128, 1), (128, 128, 1)]
    """
    width = CHANNELS
    for digit in macro:
        outputs = 2 * width if digit in "24" else width
        yield Shape(width, outputs, 2 if digit in "34" else 1)
        for _ in range(CELLS_PER_MODULE - 1):
            yield Shape(outputs, outputs, 1)
        width = outputs


class FactorizedReduce(nn.Module):
    """The skip connection between unequal shapes: ReLU, two 1 x 1 convolutions side by side, affine batch norm.

    The second convolution sees the map one row and one column further on, so that at a stride of two both together see
    half of the values.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.convs = nn.ModuleList(nn.Conv2d(inputs, outputs // 2, 1, stride, bias=False) for _ in range(2))
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        here = self.relu(x)
        there = nn.functional.pad(here, (0, 1, 0, 1))[:, :, 1:, 1:]
        output: Tensor = self.bn(torch.cat([self.convs[0](here), self.convs[1](there)], dim=1))
        return output


class MicroCell(nn.Module):
    """A cell of four nodes, each the sum of its edges; edges from node 0 change the shape, the others keep it.

    Edges without an operation are not built.
    """

    def __init__(self, cell: Cell, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.widening, self.stride = outputs // inputs, stride
        self.edges = nn.ModuleDict(
            {
                str(i): _operation(operation, *((outputs, outputs, 1) if source else (inputs, outputs, stride)))
                for i, (operation, (source, _)) in enumerate(zip(cell, EDGES, strict=True))
                if operation != "none"
            }
        )
        self.incoming = [
            [(str(i), source) for i, (source, t) in enumerate(EDGES) if t == target and str(i) in self.edges]
            for target in (1, 2, 3)
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        nodes = [x]
        for edges in self.incoming:
            terms = [self.edges[edge](nodes[source]) for edge, source in edges]
            nodes.append(functools.reduce(torch.add, terms) if terms else self.zeros(x))
        return nodes[-1]

    def zeros(self, x: Tensor) -> Tensor:
        """Return a node without edges: zero times its input, in the shape of the others."""
        # By a ratio, not by a number of channels, so that a thin copy of the network fits together.
        return 0 * x[:, :, :: self.stride, :: self.stride].repeat(1, self.widening, 1, 1)


def _operation(name: str, inputs: int, outputs: int, stride: int) -> nn.Module:
    if name != "skip_connect":
        return ReLUConvBN(inputs, outputs, _kernel(name), stride)
    return FactorizedReduce(inputs, outputs, stride) if _changes(inputs, outputs, stride) else nn.Identity()


def _kernel(convolution: str) -> int:
    return 1 if convolution == "nor_conv_1x1" else 3


def _changes(inputs: int, outputs: int, stride: int) -> bool:
    return stride != 1 or inputs != outputs


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions, each after a ReLU and before a batch norm, and a shortcut; no ReLU after the sum.

    The batch norm of a convolutional shortcut has an eps of 1 and a momentum of 1: the benchmark's code hands it two
    flags in their places, and its networks were trained so.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv_a = ReLUConvBN(inputs, outputs, 3, stride)
        self.conv_b = ReLUConvBN(outputs, outputs, 3)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs, eps=1.0, momentum=1.0)
            )
            if _changes(inputs, outputs, stride)
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        total: Tensor = self.downsample(x) + self.conv_b(self.conv_a(x))
        return total


class Encoder(nn.Module):
    """What all tasks share: a stem that quarters the resolution, then two cells a module.

    Convolutions are drawn from a normal distribution by their outputs (Kaiming, fan-out), in the order of the
    benchmark's own code.
    """

    def __init__(self, code: Code) -> None:
        super().__init__()
        half = CHANNELS // 2
        self.stem = nn.Sequential(
            nn.Conv2d(3, half, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(half),
            ReLUConvBN(half, CHANNELS, 3, stride=2),
        )
        self.cells = nn.Sequential(
            *(BasicBlock(*shape) if code.cell is None else MicroCell(code.cell, *shape) for shape in shapes(code.macro))
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to features `(N, C, H / r, W / r)`, r = 4 and twice that per strided module."""
        features: Tensor = self.cells(self.stem(x))
        return features


class Network(nn.Module):
    """Encoder, pooling and a linear layer, for classes or numbers.

    Images of more than three channels are tiles side by side, as in the jigsaw: all pass the encoder at once, and
    their features stand side by side again. So batch norm sees the tiles of the batch together; the benchmark's own
    code encodes one position after the other.

    Args:
        code: Of the network.
        task: Classes or numbers, and the channels of an image.
    """

    def __init__(self, code: Code, task: Task) -> None:
        super().__init__()
        self.encoder = Encoder(code)
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(_features(code, task), task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3 T, H, W)` of T tiles to `(N, num_classes)`."""
        tiles = self.encoder(x.reshape(-1, 3, *x.shape[2:]))
        features = tiles.reshape(len(x), -1, *tiles.shape[2:])
        outputs: Tensor = self.classifier(self.global_pooling(features).flatten(1))
        return outputs


class MapNetwork(nn.Module):
    """Encoder and decoder, for maps as large as the image.

    Args:
        code: Of the network.
        task: How many maps, and which decoder.
    """

    def __init__(self, code: Code, task: Task) -> None:
        super().__init__()
        self.encoder = Encoder(code)
        # The stem halves the resolution twice.
        self.decoder = decoder(task, _features(code, task), 2 + strides(code.macro))

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to `(N, num_classes, H, W)`."""
        maps: Tensor = self.decoder(self.encoder(x))
        return maps


def _tiles(task: Task) -> int:
    return task.channels // 3


def _features(code: Code, task: Task) -> int:
    return _tiles(task) * CHANNELS << widenings(code.macro)


class _Convolution(NamedTuple):
    """What it costs: its weights, the channels of its batch norm, and the side of its output map."""

    weights: int
    channels: int
    side: int


def _convolutions(code: Code, image_size: int) -> Iterator[_Convolution]:
    half = CHANNELS // 2
    side = -(-image_size // 2)
    yield _Convolution(27 * half, half, side)
    side = -(-side // 2)
    yield _Convolution(9 * half * CHANNELS, CHANNELS, side)
    for inputs, outputs, stride in shapes(code.macro):
        side = -(-side // stride)
        changes = _changes(inputs, outputs, stride)
        if code.cell is None:
            yield _Convolution(9 * inputs * outputs, outputs, side)
            yield _Convolution(9 * outputs**2, outputs, side)
            if changes:
                yield _Convolution(inputs * outputs, outputs, side)
            continue
        for operation, (source, _) in zip(code.cell, EDGES, strict=True):
            width = outputs if source else inputs
            if operation.startswith("nor_conv"):
                yield _Convolution(_kernel(operation) ** 2 * width * outputs, outputs, side)
            elif operation == "skip_connect" and source == 0 and changes:
                yield _Convolution(width * outputs, outputs, side)


def _truths(file: str) -> dict[str, dict[str, str]]:
    return {
        task: {"valid-final": f"{quantity}, last epoch of one training ({file})"}
        for task, (quantity, _) in _QUANTITIES.items()
    }


class TransNasBench(Space):
    """What both spaces share. Networks for other tasks, such as CIFAR-10, have the head of the same kind of outputs."""

    paper = "Duan et al., TransNAS-Bench-101, CVPR 2021"
    source: str

    @abstractmethod
    def parse(self, architecture: str) -> Code:
        """Read a text.

        Raises:
            ArchitectureError: It is no network of this space.
        """

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        code = self.parse(architecture)
        return MapNetwork(code, task) if task.outputs == "maps" else Network(code, task)

    def read_truth(self, task: str, which: str) -> Truth:
        """Read the final validation results by index."""
        path = find(self.source, self.folder)
        column, bounds = f"{task}_val", _QUANTITIES[task][1]
        rows = read_csv(
            path, ("arch_str", column), lambda row: (self.index(row["arch_str"]), number(row[column], bounds))
        )
        return Truth(f"{task}/{which}", self.truths[task][which], by_index(path, rows, self.size))

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters; those of a decoder are counted."""
        code = self.parse(architecture)
        if task.outputs == "maps":
            return super().params(architecture, task)
        encoder = sum(c.weights + 2 * c.channels for c in _convolutions(code, 1))
        return encoder + (_features(code, task) + 1) * task.num_classes

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates of one image, all of its tiles; those of a decoder are counted."""
        code = self.parse(architecture)
        if task.outputs == "maps":
            return super().macs(architecture, task)
        encoder = sum(c.weights * c.side**2 for c in _convolutions(code, task.image_size))
        return _tiles(task) * encoder + (_features(code, task) + 1) * task.num_classes


class TransNasMicro(TransNasBench):
    """The cell space: five modules, 41414; an index is the six digits of the cell read as a number of base four."""

    name = "tnb101_micro"
    size = len(OPERATIONS) ** len(EDGES)
    source = "tnb101-micro"
    truths: Mapping[str, Mapping[str, str]] = _truths("tnb101_micro.csv")

    def architecture(self, index: int) -> str:
        """Return the text of an index, 0 to 4,095."""
        digits = np.base_repr(self.check_index(index), len(OPERATIONS)).zfill(len(EDGES))
        return f"64-41414-{digits[0]}_{digits[1:3]}_{digits[3:]}"

    def index(self, architecture: str) -> int:
        """Return the index of a text."""
        self.parse(architecture)
        return int(architecture.rpartition("-")[2].replace("_", ""), len(OPERATIONS))

    def parse(self, architecture: str) -> Code:
        """Read a text."""
        return parse_micro(architecture)


class TransNasMacro(TransNasBench):
    """The network space: four to six modules of residual blocks; indices are in the order of length, then of digits."""

    name = "tnb101_macro"
    size = 3256
    source = "tnb101-macro"
    truths: Mapping[str, Mapping[str, str]] = _truths("tnb101_macro.csv")

    def architecture(self, index: int) -> str:
        """Return the text of an index, 0 to 3,255."""
        return f"64-{tuple(_macros())[self.check_index(index)]}-basic"

    def index(self, architecture: str) -> int:
        """Return the index of a text."""
        return _macros()[self.parse(architecture).macro]

    def parse(self, architecture: str) -> Code:
        """Read a text."""
        return parse_macro(architecture)


SPACES.add(TransNasMicro.name, TransNasMicro)
SPACES.add(TransNasMacro.name, TransNasMacro)
