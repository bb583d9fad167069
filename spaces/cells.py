"""Networks of stacked cells, as in DARTS and in NDS: genotypes, operations, cells, sizes."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import bad_architecture
from ..proxies.operations.skip import Skip
from . import convolutions
from .convolutions import Block, Conv, output_side
from .space import Sizes

#: An operation and its input node. Nodes 0 and 1 are the outputs of the second last and of the last cell.
Edge = tuple[str, int]

_CONVOLUTIONS = re.compile(r"(sep_conv|dil_conv|dil_sep_conv|conv)_(\d)x(\d)(?:_(\d)x(\d))?")
_POOLS = re.compile(r"(avg|max)_pool_(\d)x\2")
#: Every operation of the six search spaces.
OPERATIONS = (
    "none",
    "skip_connect",
    "avg_pool_3x3",
    "max_pool_3x3",
    "max_pool_5x5",
    "max_pool_7x7",
    "conv_1x1",
    "conv_3x3",
    "conv_3x1_1x3",
    "conv_7x1_1x7",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "sep_conv_7x7",
    "dil_conv_3x3",
    "dil_conv_5x5",
    "dil_sep_conv_3x3",
)
#: Limit for the characters of a genotype; official ones have about 450.
_LONGEST = 2_000
_FORM = "Genotype(normal=[(op, input), ...], normal_concat=[...], reduce=[...], reduce_concat=[...])"
_LIST = r"(\[[^\[\]]*\]|range\([0-9]{1,2}, [0-9]{1,2}\))"
_GENOTYPE = re.compile(
    rf"Genotype\(normal=(\[[^\[\]]*\]), normal_concat={_LIST}, reduce=(\[[^\[\]]*\]), reduce_concat={_LIST}\)"
)


class Genotype(NamedTuple):
    """Two cells, each with two edges per node and with the nodes whose concatenation is the output."""

    normal: tuple[Edge, ...]
    normal_concat: tuple[int, ...]
    reduce: tuple[Edge, ...]
    reduce_concat: tuple[int, ...]

    def __str__(self) -> str:
        """Return the text as DARTS writes it, the inverse of `parse_genotype`."""
        return (
            f"Genotype(normal={list(self.normal)}, normal_concat={list(self.normal_concat)}, "
            f"reduce={list(self.reduce)}, reduce_concat={list(self.reduce_concat)})"
        )

    def cell(self, *, reduction: bool) -> tuple[tuple[Edge, ...], tuple[int, ...]]:
        """Return the edges and the concatenation of one cell."""
        return self[2:] if reduction else self[:2]


def parse_genotype(text: str) -> Genotype:
    """Read the text of a genotype; nothing from it is run.

    Raises:
        ArchitectureError: The text has another form, an unknown operation, or an impossible edge or concatenation.

    Example:
        >>> parse_genotype(
        ...     "Genotype(normal=[('skip_connect', 0), ('sep_conv_3x3', 1)], normal_concat=range(2, 3), "
        ...     "reduce=[('max_pool_3x3', 0), ('none', 1)], reduce_concat=[2])"
        ... ).normal
        (('skip_connect', 0), ('sep_conv_3x3', 1))
    """
    found = _GENOTYPE.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise bad_architecture(text, f"expected {_FORM}")
    try:
        normal, normal_concat, reduce, reduce_concat = found.groups()
        genotype = Genotype(_edges(normal), _nodes(normal_concat), _edges(reduce), _nodes(reduce_concat))
        _check("normal", *genotype.cell(reduction=False))
        _check("reduce", *genotype.cell(reduction=True))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise bad_architecture(text, f"{str(error)[:150]}; expected {_FORM}") from None
    return genotype


def _check(name: str, edges: tuple[Edge, ...], concat: tuple[int, ...]) -> None:
    if not edges or len(edges) % 2:
        raise ValueError(f"{name} has {len(edges)} edges, not two for every node")
    for place, (operation, source) in enumerate(edges):
        if operation not in OPERATIONS:
            raise ValueError(f"unknown operation '{str(operation)[:40]}'")
        if type(source) is not int or not 0 <= source < 2 + place // 2:
            raise ValueError(f"{name} node {2 + place // 2} reads node {str(source)[:20]}")
    known = range(2, 2 + len(edges) // 2)
    if not concat or len(set(concat)) < len(concat) or not set(concat) <= set(known):
        raise ValueError(f"{name}_concat is {str(list(concat))[:60]}, but the nodes are {list(known)}")


def _edges(text: str) -> tuple[Edge, ...]:
    edges = tuple(ast.literal_eval(text))
    if not all(type(edge) is tuple and len(edge) == 2 for edge in edges):
        raise ValueError(f"expected pairs in {text[:40]}")
    return edges


def _nodes(text: str) -> tuple[int, ...]:
    if text.startswith("range"):
        first, end = re.findall(r"\d+", text)
        return tuple(range(int(first), int(end)))
    nodes = tuple(ast.literal_eval(text))
    if not all(type(node) is int for node in nodes):
        raise ValueError(f"expected whole numbers in {text[:40]}")
    return nodes


@dataclass(frozen=True)
class Style:
    """The differences between two code bases.

    Attributes:
        affine: Whether the batch norms of operations have parameters; those of cell inputs always have.
        pool_norm: Whether a batch norm without parameters follows each pooling.
        padded: Whether a factorized reduction pads its shifted map, which matters only for odd sizes.
    """

    affine: bool = True
    pool_norm: bool = False
    padded: bool = True


#: The style of DARTS's evaluation networks and of NDS.
DARTS = Style()
#: The style of NAS-Bench-301 in NASLib.
NASLIB = Style(affine=False, pool_norm=True, padded=False)


def blocks(operation: str, channels: int, stride: int) -> list[list[Conv]]:
    """Return the convolutions of an operation, block by block; an operation without convolutions has no block.

    A block is a ReLU, its convolutions and a batch norm.
    """
    found = _CONVOLUTIONS.fullmatch(operation)
    if found is None:
        return []
    kind, kernel = found[1], int(found[2])
    if kind == "conv":
        if found[4]:  # a 1 x k convolution, then k x 1
            return [
                [
                    Conv(channels, channels, (1, kernel), (1, stride)),
                    Conv(channels, channels, (kernel, 1), (stride, 1)),
                ]
            ]
        return [[Conv(channels, channels, (kernel, kernel), (stride, stride))]]
    dilation = 2 if kind.startswith("dil") else 1
    return [
        [
            Conv(channels, channels, (kernel, kernel), (step, step), dilation, groups=channels),
            Conv(channels, channels, (1, 1)),
        ]
        for step in ((stride,) if kind == "dil_conv" else (stride, 1))
    ]


class ReLUConvBN(nn.Sequential):
    """A ReLU, one or more convolutions, and a batch norm."""

    def __init__(self, convolutions: Sequence[Conv], affine: bool = True) -> None:
        super().__init__(
            nn.ReLU(),
            *(convolution.build() for convolution in convolutions),
            nn.BatchNorm2d(convolutions[-1].outputs, affine=affine),
        )


class FactorizedReduce(nn.Module):
    """A layer that halves the resolution: two 1 x 1 convolutions of stride two, one on the map shifted by a pixel."""

    def __init__(self, inputs: int, outputs: int, style: Style, affine: bool = True) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.conv_1 = nn.Conv2d(inputs, outputs // 2, 1, stride=2, bias=False)
        self.conv_2 = nn.Conv2d(inputs, outputs // 2, 1, stride=2, bias=False)
        self.pad = nn.ZeroPad2d((0, 1, 0, 1)) if style.padded else Skip()
        self.bn = nn.BatchNorm2d(outputs // 2 * 2, affine=affine)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / 2, W / 2)`."""
        x = self.relu(x)
        output: Tensor = self.bn(torch.cat([self.conv_1(x), self.conv_2(self.pad(x)[:, :, 1:, 1:])], 1))
        return output


def _operation(name: str, channels: int, stride: int, style: Style) -> nn.Module:
    if name == "skip_connect":
        return Skip() if stride == 1 else FactorizedReduce(channels, channels, style, style.affine)
    if convolutions := blocks(name, channels, stride):
        return nn.Sequential(*(ReLUConvBN(block, style.affine) for block in convolutions))
    found = _POOLS.fullmatch(name)
    assert found is not None, name
    kernel = int(found[2])
    pool: nn.Module = nn.MaxPool2d(kernel, stride, padding=kernel // 2)
    if found[1] == "avg":
        pool = nn.AvgPool2d(kernel, stride, padding=kernel // 2, count_include_pad=False)
    return nn.Sequential(pool, nn.BatchNorm2d(channels, affine=False)) if style.pool_norm else pool


class Place(NamedTuple):
    """The position of a cell: channels of the two cells before it, its own, and whether it or the last one reduces."""

    before: int
    last: int
    width: int
    reduction: bool
    after_reduction: bool


class CellNode(nn.Module):
    """A node: the sum of two operations. `none` is not built. A node without operations is zero times its input."""

    def __init__(self, edges: Sequence[Edge], place: Place, style: Style) -> None:
        super().__init__()
        strides = [2 if place.reduction and source < 2 else 1 for _, source in edges]
        found = [(o, source, s) for (o, source), s in zip(edges, strides, strict=True) if o != "none"]
        self.operations = nn.ModuleList(_operation(o, place.width, stride, style) for o, _, stride in found)
        self.sources = [source for _, source, _ in found]
        self.empty = (edges[0][1], strides[0])

    def forward(self, states: list[Tensor]) -> Tensor:
        """Map the outputs of the nodes so far, each `(N, C, H, W)`, to the output of this node."""
        terms = [operation(states[source]) for operation, source in zip(self.operations, self.sources, strict=True)]
        if terms:
            total: Tensor = sum(terms[1:], terms[0])
            return total
        source, stride = self.empty
        return 0 * states[source][:, :, ::stride, ::stride]


class Cell(nn.Module):
    """A cell: its two inputs are mapped to its width; its output is the concatenation of some of its nodes."""

    def __init__(self, genotype: Genotype, place: Place, style: Style) -> None:
        super().__init__()
        edges, self.concat = genotype.cell(reduction=place.reduction)
        self.preprocess0 = (
            FactorizedReduce(place.before, place.width, style)
            if place.after_reduction
            else ReLUConvBN([Conv(place.before, place.width, (1, 1))])
        )
        self.preprocess1 = ReLUConvBN([Conv(place.last, place.width, (1, 1))])
        pairs = [edges[i : i + 2] for i in range(0, len(edges), 2)]
        self.nodes = nn.ModuleList(CellNode(pair, place, style) for pair in pairs)

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        """Map the outputs of the second last and of the last cell to `(N, len(concat) * width, H, W)`."""
        states = [self.preprocess0(before), self.preprocess1(last)]
        for node in self.nodes:
            states.append(node(states))
        return torch.cat([states[node] for node in self.concat], 1)


class Skeleton(NamedTuple):
    """A genotype with the width and the depth of its network, and the form of its stem.

    The form `imagenet` has three convolutions of stride two before the first cell, `cifar` has one of stride one.
    """

    genotype: Genotype
    width: int
    depth: int
    form: Literal["cifar", "imagenet"] = "cifar"

    def stem(self) -> list[Conv]:
        """Return the convolutions before the first cell."""
        if self.form == "cifar":
            return [Conv(3, 3 * self.width, (3, 3))]
        channels = (3, self.width // 2, self.width, self.width)
        return [Conv(inputs, outputs, (3, 3), (2, 2)) for inputs, outputs in itertools.pairwise(channels)]

    def places(self) -> Iterator[Place]:
        """Yield the position of every cell. At a third and two thirds of the depth, sizes halve and widths double."""
        stem = self.stem()[-1].outputs
        before, last, width, reduced = stem, stem, self.width, self.form == "imagenet"
        for position in range(self.depth):
            reduction = position in {self.depth // 3, 2 * self.depth // 3}
            width *= 2 if reduction else 1
            place = Place(before, last, width, reduction, reduced)
            yield place
            before, last, reduced = last, self.outputs(place), reduction

    def outputs(self, place: Place) -> int:
        """Return the number of channels after a cell."""
        _, concat = self.genotype.cell(reduction=place.reduction)
        return place.width * len(concat)


class Network(nn.Module):
    """A whole network without the auxiliary head, which only training uses."""

    def __init__(self, skeleton: Skeleton, num_classes: int, style: Style = DARTS) -> None:
        super().__init__()
        first, *others = skeleton.stem()
        layers = [first.build(), nn.BatchNorm2d(first.outputs)]
        if others:
            layers += [nn.ReLU(), others[0].build(), nn.BatchNorm2d(others[0].outputs)]
        self.stems = nn.ModuleList([nn.Sequential(*layers), *(ReLUConvBN([third]) for third in others[1:])])
        places = list(skeleton.places())
        self.cells = nn.ModuleList(Cell(skeleton.genotype, place, style) for place in places)
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(skeleton.outputs(places[-1]), num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to logits `(N, num_classes)`."""
        before = last = self.stems[0](x)
        for stem in self.stems[1:]:
            last = stem(before)
        for cell in self.cells:
            before, last = last, cell(before, last)
        logits: Tensor = self.classifier(self.global_pooling(last).flatten(1))
        return logits


def sizes(
    skeleton: Skeleton, num_classes: int, image_size: int, style: Style = DARTS, *, auxiliary: bool = False
) -> Sizes:
    """Return the sizes of a network without building it.

    If `auxiliary`, the parameters of the auxiliary head count too, as in records of trainings.
    """
    places = list(skeleton.places())
    network: list[Block] = []
    before = last = image_size
    for convolution in skeleton.stem():
        network.append(Block([convolution], last))
        before, last = last, output_side(last, convolution.stride[0])
    for place in places:
        network += _cell_blocks(skeleton.genotype, place, before, last, style)
        before, last = last, output_side(last) if place.reduction else last
    params, macs = convolutions.sizes(network, skeleton.outputs(places[-1]), num_classes)
    if auxiliary:
        # The head reads the cell at two thirds of the depth. For ImageNet, no batch norm follows its 2 x 2 convolution.
        inputs = skeleton.outputs(places[2 * skeleton.depth // 3])
        norms = 2 * 128 + (2 * 768 if skeleton.form == "cifar" else 0)
        params += inputs * 128 + 128 * 768 * 4 + norms + (768 + 1) * num_classes
    return Sizes(params, macs)


def _cell_blocks(genotype: Genotype, place: Place, before: int, last: int, style: Style) -> Iterator[Block]:
    """Yield the blocks of a cell; `before` and `last` are the sides of its inputs."""
    if place.after_reduction:
        yield from _reduction(place.before, place.width, before, style)
    else:
        yield Block([Conv(place.before, place.width, (1, 1))], before)
    yield Block([Conv(place.last, place.width, (1, 1))], last)
    edges, _ = genotype.cell(reduction=place.reduction)
    for operation, source in edges:
        stride = 2 if place.reduction and source < 2 else 1
        side = output_side(last) if place.reduction and source >= 2 else last
        if operation == "skip_connect" and stride == 2:
            yield from _reduction(place.width, place.width, side, style, style.affine)
        for block in blocks(operation, place.width, stride):
            yield Block(block, side, style.affine)
            side = output_side(side, stride)


def _reduction(inputs: int, outputs: int, side: int, style: Style, affine: bool = True) -> Iterator[Block]:
    """Yield a factorized reduction as two blocks; without padding, the shifted map is smaller by one."""
    half = [Conv(inputs, outputs // 2, (1, 1), (2, 2))]
    yield Block(half, side, affine)
    yield Block(half, side if style.padded else side - 1, affine)
