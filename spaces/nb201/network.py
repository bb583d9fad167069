"""The networks of NAS-Bench-201, also the topology space of NATS-Bench: 15,625 cells of four nodes, five operations."""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import ArchitectureError, bad_architecture
from ...proxies.operations.skip import Skip

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
#: The edges (from, to) of a cell, in the order of the architecture text.
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
#: Number of cells.
SIZE = len(OPERATIONS) ** len(EDGES)
#: The class of every cell, uint16, see `isomorphism_classes`.
CLASSES = Path(__file__).parent / "classes.npy"
CHANNELS = 16
CELLS_PER_STAGE = 5

#: One operation per edge, in the order of `EDGES`.
Cell = tuple[str, str, str, str, str, str]


def parse(architecture: str) -> Cell:
    """Read `|op~0|+|op~0|op~1|+|op~0|op~1|op~2|`, in which each `op~j` is an edge from node j.

    Raises:
        ArchitectureError: The text has another form or an unknown operation.

    Example:
        >>> parse("|none~0|+|none~0|none~1|+|skip_connect~0|none~1|nor_conv_3x3~2|")
        ('none', 'none', 'none', 'skip_connect', 'none', 'nor_conv_3x3')
    """
    form = "|op~0|+|op~0|op~1|+|op~0|op~1|op~2|"
    nodes = architecture.split("+")
    if len(nodes) != 3:
        raise bad_architecture(architecture, f"expected 3 nodes as in {form}, got {len(nodes)}")
    cell: list[str] = []
    for node, text in enumerate(nodes, start=1):
        edges = re.fullmatch(r"\|" + "".join(rf"([^|~+]*)~{source}\|" for source in range(node)), text)
        if edges is None:
            raise bad_architecture(architecture, f"node {node} is '{text[:100]}', expected {form}")
        cell += edges.groups()
    for operation in cell:
        if operation not in OPERATIONS:
            raise bad_architecture(
                architecture, f"unknown operation '{operation[:40]}', expected {', '.join(OPERATIONS)}"
            )
    return cast("Cell", tuple(cell))


def text(cell: Cell) -> str:
    """Return the text of a cell as the benchmark writes it, the inverse of `parse`."""
    edges = iter(cell)
    return "+".join("|" + "".join(f"{next(edges)}~{source}|" for source in range(node)) for node in (1, 2, 3))


@functools.cache
def cells() -> tuple[Cell, ...]:
    """Return all cells in the order of the official release, which shuffled the product with the seed 88."""
    cells = cast("list[Cell]", list(itertools.product(OPERATIONS, repeat=len(EDGES))))
    random.Random(88).shuffle(cells)
    return tuple(cells)


@functools.cache
def indices() -> dict[tuple[str, ...], int]:
    """Return the official index of every cell."""
    return {cell: index for index, cell in enumerate(cells())}


def index(architecture: str) -> int:
    """Return the official index of a text.

    Raises:
        ArchitectureError: The text does not describe a cell.
    """
    return indices()[parse(architecture)]


def unique_text(cell: Cell) -> str:
    """Return a cell as an expression in its input, by which the benchmark compares cells; `#` stands for zero.

    Skips vanish, zeros absorb, and the terms of a sum are sorted, so the order of a node's edges does not matter. There
    are 6,466 expressions. They are no classes of functions. Some functions have several, because zeros are counted, the
    order of nodes matters, and a pooling of a sum is a sum of poolings. Some expressions stand for several functions,
    because a node that two edges read is written twice, as two equal nodes are. `function` tells these apart.
    """
    nodes = ["0"]
    edges = iter(cell)
    for node in (1, 2, 3):
        terms = []
        for source in range(node):
            operation = next(edges)
            if operation == "none" or nodes[source] == "#":
                terms.append("#")
            elif operation == "skip_connect":
                terms.append(nodes[source])
            else:
                terms.append(f"({nodes[source]})@{operation}")
        nodes.append("+".join(sorted(terms)))
    return nodes[-1]


#: A value as a sum of the convolutions on edges and of the input, each as it is or behind one to three poolings: how
#: often it has each of them.
Value = tuple[int, ...]
#: The convolutions of a function and its input: kind, number of the value that is read, part in every value.
Function = tuple[tuple[str, int, tuple[Value, ...]], ...]

_POOLINGS = 3  # on a path, at most
_INPUT: Value = (0,) * len(EDGES) * (1 + _POOLINGS) + (1, *(0,) * _POOLINGS)


def function(cell: Cell) -> Function:
    """Return what two cells share if and only if they are one function of the input, but for the values of weights.

    A skip gives the sum of its source, and so does a pooling, behind one pooling more, because it is linear and has no
    weights. So the output and every value that a convolution reads are sums of convolutions and of the input. Nodes
    with equal sums are one value, and what the output does not need is left out. Of the orders of the inner values, the
    one with the least result counts.
    """
    values = [_INPUT, *_inner_values(cell[:3])]
    values.append(_value(3, cell, values))
    needed: list[int] = []
    waiting = [3]
    while waiting:
        for place, part in enumerate(_parts(values[waiting.pop()])[:-1]):
            if any(part) and place not in needed:
                needed.append(place)
                waiting.append(EDGES[place][0])
    inner = {values[EDGES[place][0]] for place in needed} - {_INPUT}
    found = []
    for order in itertools.permutations(inner):
        number = {_INPUT: 0} | {value: at for at, value in enumerate(order, start=1)}
        parts = list(zip(*map(_parts, (values[3], *order)), strict=True))
        rows = [(cell[place], number[values[EDGES[place][0]]], parts[place]) for place in needed]
        found.append(tuple(sorted([*rows, ("input", 0, parts[-1])])))
    return min(found)


@functools.cache
def _parts(value: Value) -> tuple[Value, ...]:
    """Return how often a value has each convolution, and the input, as it is and behind poolings."""
    return tuple(value[start : start + 1 + _POOLINGS] for start in range(0, len(_INPUT), 1 + _POOLINGS))


def _value(node: int, cell: Cell, values: Sequence[Value]) -> Value:
    total = [0] * len(_INPUT)
    for place, (source, target) in enumerate(EDGES[: len(cell)]):
        given = values[source] if target == node and cell[place] != "none" else ()
        if not any(given):
            continue
        if cell[place] == "avg_pool_3x3":
            given = (0, *given[:-1])  # what is behind three poolings is the output
        if cell[place] in {"avg_pool_3x3", "skip_connect"}:
            total = [a + b for a, b in zip(total, given, strict=True)]
        else:
            total[place * (1 + _POOLINGS)] += 1
    return tuple(total)


@functools.cache
def _inner_values(cell: Cell) -> tuple[Value, Value]:
    first = _value(1, cell, [_INPUT])
    return first, _value(2, cell, [_INPUT, first])


@functools.cache
def isomorphism_classes() -> tuple[int, ...]:
    """Return for every index that of the first cell with the same function; there are 5,044 classes.

    They are read from a file that `python -m zcbench.tools.nb201.classes` writes, because to compare all functions
    takes a third of a second at every start.
    """
    return tuple(np.load(CLASSES, allow_pickle=False).tolist())


def classes_by_function() -> tuple[int, ...]:
    """Return `isomorphism_classes`, worked out from the functions of all cells.

    Cells without an unreachable operation come first, because such an operation counts for the size of a network.
    """
    forms = [function(cell) for cell in cells()]
    first: dict[Function, int] = {}
    for index in sorted(range(SIZE), key=lambda index: has_unreachable(cells()[index])):
        first.setdefault(forms[index], index)
    return tuple(first[form] for form in forms)


def reaches_output(cell: Cell) -> bool:
    """Tell whether any path leads from the input to the output. 341 cells have no such path."""
    reached = {0}
    for (source, target), operation in zip(EDGES, cell, strict=True):
        if operation != "none" and source in reached:
            reached.add(target)
    return 3 in reached


def has_unreachable(cell: Cell) -> bool:
    """Tell whether an operation other than `none` lies on no path from input to output, as in 6,180 cells."""
    edges = [edge for edge, operation in zip(EDGES, cell, strict=True) if operation != "none"]
    reached, reaching = {0}, {3}
    for source, target in edges:
        if source in reached:
            reached.add(target)
    for source, target in reversed(edges):
        if target in reaching:
            reaching.add(source)
    return any(source not in reached or target not in reaching for source, target in edges)


def incoming(cell: Cell) -> list[list[tuple[str, int]]]:
    """Return the edges into nodes 1, 2 and 3, each as its place in `EDGES` and its source; `none` is left out."""
    edges = [(str(i), edge) for i, (edge, operation) in enumerate(zip(EDGES, cell, strict=True)) if operation != "none"]
    return [[(place, source) for place, (source, target) in edges if target == node] for node in (1, 2, 3)]


class ReLUConvBN(nn.Module):
    """A ReLU, a convolution without bias, and an affine batch norm."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.op = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        output: Tensor = self.op(x)
        return output


class Pooling(nn.Module):
    """The average of 3 x 3 neighbours. Positions outside of the map are not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.op = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, C, H, W)` to the same shape."""
        output: Tensor = self.op(x)
        return output


class InferCell(nn.Module):
    """The cell: nodes 0 to 3, each the sum of its edges. Operations that are `none` are not built."""

    def __init__(self, cell: Cell, channels: int) -> None:
        super().__init__()
        # Modules are sorted by target, then by source. The benchmark's code draws weights in this order.
        self.layers = nn.ModuleDict(
            {str(i): _operation(operation, channels) for i, operation in enumerate(cell) if operation != "none"}
        )
        self.incoming = incoming(cell)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, C, H, W)` to the same shape. A node without edges is zero times the input."""
        nodes = [x]
        for edges in self.incoming:
            terms = [self.layers[layer](nodes[source]) for layer, source in edges]
            nodes.append(functools.reduce(torch.add, terms) if terms else 0 * x)
        output: Tensor = nodes[-1]
        return output


class ResNetBasicblock(nn.Module):
    """The residual block between stages, with a stride of two and no ReLU after the sum."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv_a = ReLUConvBN(inputs, outputs, 3, stride=2)
        self.conv_b = ReLUConvBN(outputs, outputs, 3)
        self.downsample = nn.Sequential(nn.AvgPool2d(2, stride=2), nn.Conv2d(inputs, outputs, 1, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / 2, W / 2)`."""
        residual: Tensor = self.conv_b(self.conv_a(x))
        total: Tensor = residual + self.downsample(x)
        return total


class Skeleton(nn.Module):
    """The skeleton of both spaces of NATS-Bench: stem, cells, head.

    The modules have the names and the nesting of the benchmark's code. So its checkpoints can be loaded, and proxies
    that choose modules by class name or count containers find the same modules. The cells are an iterator, because the
    stem draws its weights first.
    """

    def __init__(self, channels: int, cells: Iterator[nn.Module], features: int, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        self.cells = nn.ModuleList(cells)
        self.lastact = nn.Sequential(nn.BatchNorm2d(features), nn.ReLU())
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(features, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to logits `(N, num_classes)`."""
        features = self.stem(x)
        for cell in self.cells:
            features = cell(features)
        logits: Tensor = self.classifier(self.global_pooling(self.lastact(features)).flatten(1))
        return logits


class Network(Skeleton):
    """A whole network: three stages of equal cells, with 1, 2 and 4 times the channels of the stem."""

    def __init__(self, cell: Cell, num_classes: int, channels: int = CHANNELS, cells: int = CELLS_PER_STAGE) -> None:
        super().__init__(channels, _stages(cell, channels, cells), 4 * channels, num_classes)


def _stages(cell: Cell, channels: int, cells: int) -> Iterator[nn.Module]:
    for width in (channels, 2 * channels, 4 * channels):
        if width != channels:
            yield ResNetBasicblock(width // 2, width)
        for _ in range(cells):
            yield InferCell(cell, width)


def _operation(name: str, channels: int) -> nn.Module:
    match name:
        case "skip_connect":
            return Skip()
        case "nor_conv_1x1":
            return ReLUConvBN(channels, channels, 1)
        case "nor_conv_3x3":
            return ReLUConvBN(channels, channels, 3)
        case "avg_pool_3x3":
            return Pooling()
    raise ArchitectureError(f"unknown operation '{name}', expected {', '.join(OPERATIONS)}")
