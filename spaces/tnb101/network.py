"""The networks of TransNAS-Bench-101: codes of a network, the encoder with its cells or blocks, and its sizes."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ...datasets.tasks import Task
from ...errors import bad_architecture
from ...proxies.operations.skip import Skip
from .. import convolutions
from ..convolutions import Conv, output_side
from ..nb201.network import EDGES, Cell, ReLUConvBN, incoming
from ..space import Sizes

#: Operations in the order of their digits. Edges are in the order of NAS-Bench-201.
OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3")
CHANNELS = 64
CELLS_PER_MODULE = 2
#: Channels after every block of the generator, and its blocks that can upsample, the last one first.
GENERATOR = (1024, 1024, 512, 512, 256, 128, 64, 64, 32, 32, 16, 32, 16)
UPSAMPLING = (12, 10, 8, 6, 4, 2)
#: Channels after every block of the segmentation decoder, whose last blocks upsample.
SEGMENTATION = (1024, 512, 256, 128, 64, 32, 32)


class Code(NamedTuple):
    """A network: one digit per module, and the cell that all modules repeat. The cell is None for residual blocks."""

    macro: str
    cell: Cell | None


class Shape(NamedTuple):
    """The channels before and after a cell, and its stride."""

    inputs: int
    outputs: int
    stride: int

    @property
    def changes(self) -> bool:
        """Whether the output of the cell has another shape than the input."""
        return self.stride != 1 or self.inputs != self.outputs


def parse_micro(architecture: str) -> Code:
    """Read `64-41414-a_bc_def`: a group of digits per node, in which digit j is the operation on the edge from node j.

    Raises:
        ArchitectureError: The text has another form.

    Example:
        >>> parse_micro("64-41414-1_02_333").cell
        ('skip_connect', 'none', 'nor_conv_1x1', 'nor_conv_3x3', 'nor_conv_3x3', 'nor_conv_3x3')
    """
    found = re.fullmatch(r"64-(41414)-([0-3])_([0-3]{2})_([0-3]{3})", architecture)
    if found is None:
        raise bad_architecture(
            architecture,
            "expected 64-41414-a_bc_def, each letter a digit 0 (none), 1 (skip), 2 (1 x 1 convolution) or "
            "3 (3 x 3 convolution)",
        )
    macro, *nodes = found.groups()
    return Code(macro, cast("Cell", tuple(OPERATIONS[int(digit)] for digit in "".join(nodes))))


def parse_macro(architecture: str) -> Code:
    """Read `64-<4 to 6 digits>-basic`: a module is 1 (plain), 2 (twice as wide), 3 (stride two) or 4 (both).

    Raises:
        ArchitectureError: The text has another form, or too few or too many modules widen or stride.

    Example:
        >>> parse_macro("64-1234-basic")
        Code(macro='1234', cell=None)
    """
    found = re.fullmatch(r"64-([1-4]{4,6})-basic", architecture)
    if found is None or not _is_macro(found[1]):
        raise bad_architecture(
            architecture,
            "expected 64-<4 to 6 digits>-basic, each 1 (plain), 2 (twice as wide), 3 (stride two) or 4 (both), one to "
            "four of them 3 or 4, one to three of them 2 or 4",
        )
    return Code(found[1], None)


def strides(macro: str) -> int:
    """Return the number of modules that halve the resolution."""
    return macro.count("3") + macro.count("4")


def widenings(macro: str) -> int:
    """Return the number of modules that double the channels."""
    return macro.count("2") + macro.count("4")


def _is_macro(macro: str) -> bool:
    return 1 <= strides(macro) <= 4 and 1 <= widenings(macro) <= 3


@functools.cache
def macros() -> dict[str, int]:
    """Return the index of the digits of every network in the macro space: by length, then by digits."""
    digits = ("".join(digits) for length in (4, 5, 6) for digits in itertools.product("1234", repeat=length))
    return {macro: index for index, macro in enumerate(filter(_is_macro, digits))}


def shapes(macro: str) -> Iterator[Shape]:
    """Yield the shape of every cell. The first cell of a module strides and widens, the second keeps the shape.

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
    """The skip connection between unequal shapes: a ReLU, two parallel 1 x 1 convolutions, and an affine batch norm.

    The second convolution sees the map shifted by one row and one column. So at a stride of two, both together see half
    of the values.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.convs = nn.ModuleList(nn.Conv2d(inputs, outputs // 2, 1, stride, bias=False) for _ in range(2))
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        here = self.relu(x)
        shifted = nn.functional.pad(here, (0, 1, 0, 1))[:, :, 1:, 1:]
        output: Tensor = self.bn(torch.cat([self.convs[0](here), self.convs[1](shifted)], dim=1))
        return output


class MicroCell(nn.Module):
    """A cell of four nodes, each the sum of its edges. Edges from node 0 change the shape, the other edges keep it.

    Edges without an operation are not built.
    """

    def __init__(self, cell: Cell, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.widening, self.stride = outputs // inputs, stride
        self.edges = nn.ModuleDict(
            {
                str(i): _operation(operation, Shape(outputs, outputs, 1) if source else Shape(inputs, outputs, stride))
                for i, (operation, (source, _)) in enumerate(zip(cell, EDGES, strict=True))
                if operation != "none"
            }
        )
        self.incoming = incoming(cell)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        nodes = [x]
        for edges in self.incoming:
            terms = [self.edges[edge](nodes[source]) for edge, source in edges]
            nodes.append(functools.reduce(torch.add, terms) if terms else self.zeros(x))
        return nodes[-1]

    def zeros(self, x: Tensor) -> Tensor:
        """Return a node without edges: zero times the input, in the shape of the other nodes."""
        # The width is a ratio and no number of channels, so that proxies can make a thin copy of the network.
        return 0 * x[:, :, :: self.stride, :: self.stride].repeat(1, self.widening, 1, 1)


def _operation(name: str, shape: Shape) -> nn.Module:
    if name != "skip_connect":
        return ReLUConvBN(shape.inputs, shape.outputs, _kernel(name), shape.stride)
    return FactorizedReduce(*shape) if shape.changes else Skip()


def _kernel(convolution: str) -> int:
    return 1 if convolution == "nor_conv_1x1" else 3


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions, each after a ReLU and before a batch norm, and a shortcut. No ReLU follows the sum.

    The batch norm of a convolutional shortcut has an eps of 1 and a momentum of 1. The benchmark's code passes two
    flags in the places of these arguments, and its networks were trained so.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv_a = ReLUConvBN(inputs, outputs, 3, stride)
        self.conv_b = ReLUConvBN(outputs, outputs, 3)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs, eps=1.0, momentum=1.0)
            )
            if Shape(inputs, outputs, stride).changes
            else Skip()
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        total: Tensor = self.downsample(x) + self.conv_b(self.conv_a(x))
        return total


class Encoder(nn.Module):
    """The part that is the same for all tasks: a stem that quarters the resolution, and two cells per module.

    As in the benchmark's code, weights of convolutions are drawn from a normal distribution (Kaiming, fan-out), in the
    order of the modules.
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
        """Map images `(N, 3, H, W)` to features `(N, C, H / r, W / r)`, r = 4 times 2 per module of stride two."""
        features: Tensor = self.cells(self.stem(x))
        return features


class Network(nn.Module):
    """A network for logits or numbers: encoder, pooling, and a linear layer.

    An image with more than three channels consists of tiles, as in the jigsaw. All tiles pass the encoder at once, and
    their features are stacked again. So batch norm sees all tiles of the batch together. The benchmark's code encodes
    one position after another.
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


class Block(nn.Sequential):
    """A 3 x 3 convolution with bias, a batch norm and a leaky ReLU. To upsample, the convolution is transposed."""

    def __init__(self, inputs: int, outputs: int, *, upsamples: bool) -> None:
        super().__init__(
            nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)
            if upsamples
            else nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.LeakyReLU(0.2),
        )


class Decoder(nn.Module):
    """Blocks of the given widths, then a 3 x 3 convolution to the maps. The blocks in `upsampling` double the sides."""

    def __init__(self, inputs: int, widths: tuple[int, ...], upsampling: Collection[int], outputs: int) -> None:
        super().__init__()
        pairs = itertools.pairwise((inputs, *widths))
        self.blocks = nn.Sequential(*(Block(*pair, upsamples=i in upsampling) for i, pair in enumerate(pairs)))
        self.to_maps = nn.Conv2d(widths[-1], outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, 2^u H, 2^u W)`, u being the number of blocks that upsample."""
        maps: Tensor = self.to_maps(self.blocks(x))
        return maps


class MapNetwork(nn.Module):
    """A network for maps as large as the image: encoder and decoder.

    The decoder of `autoencoder` and `normal` is a generator that ends in tanh. The discriminator that the generator is
    trained against is no part of the network, because no map passes through it.
    """

    def __init__(self, code: Code, task: Task) -> None:
        super().__init__()
        self.encoder = Encoder(code)
        features, upsamplings = _features(code, task), 2 + strides(code.macro)  # the stem halves the resolution twice
        self.decoder: nn.Module
        if task.name in {"autoencoder", "normal"}:
            blocks = Decoder(features, GENERATOR, UPSAMPLING[:upsamplings], task.num_classes)
            self.decoder = nn.Sequential(blocks, nn.Tanh())
        else:
            last = range(len(SEGMENTATION))[-upsamplings:]
            self.decoder = Decoder(features, SEGMENTATION, last, task.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to `(N, num_classes, H, W)`."""
        maps: Tensor = self.decoder(self.encoder(x))
        return maps


def network_sizes(code: Code, task: Task) -> Sizes:
    """Return the sizes of a `Network`. The multiply-accumulates of an image are those of all its tiles."""
    encoder = convolutions.sizes(_blocks(code, task.image_size), 0, 0)
    classifier = (_features(code, task) + 1) * task.num_classes
    return Sizes(encoder.params + classifier, task.channels // 3 * encoder.macs + classifier)


def _features(code: Code, task: Task) -> int:
    return task.channels // 3 * CHANNELS << widenings(code.macro)


def _blocks(code: Code, image_size: int) -> Iterator[convolutions.Block]:
    """Yield all convolutions of an encoder, each with the side of its output and a stride of one."""
    half = CHANNELS // 2
    side = output_side(image_size)
    yield convolutions.Block([Conv(3, half, (3, 3))], side)
    side = output_side(side)
    yield convolutions.Block([Conv(half, CHANNELS, (3, 3))], side)
    for shape in shapes(code.macro):
        inputs, outputs, stride = shape
        side = output_side(side, stride)
        if code.cell is None:
            yield convolutions.Block([Conv(inputs, outputs, (3, 3))], side)
            yield convolutions.Block([Conv(outputs, outputs, (3, 3))], side)
            if shape.changes:
                yield convolutions.Block([Conv(inputs, outputs, (1, 1))], side)
            continue
        for operation, (source, _) in zip(code.cell, EDGES, strict=True):
            width = outputs if source else inputs
            if operation.startswith("nor_conv"):
                kernel = _kernel(operation)
                yield convolutions.Block([Conv(width, outputs, (kernel, kernel))], side)
            elif operation == "skip_connect" and source == 0 and shape.changes:
                # The two halves of a factorized reduction have the size of one whole convolution.
                yield convolutions.Block([Conv(width, outputs, (1, 1))], side)
