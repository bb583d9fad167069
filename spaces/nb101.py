"""NAS-Bench-101: cells of up to seven vertices and nine edges, with three operations on the vertices."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..datasets.files.registry import find
from ..datasets.tasks import Task
from ..errors import bad_architecture
from .convolutions import Block, Conv, sizes
from .space import SPACES, ListedSpace, Sizes
from .table import Table, converted, number, read_csv, table

#: Operations of the vertices between input and output, in the order of the published labels 0, 1 and 2.
OPERATIONS = ("conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3")
MAX_VERTICES = 7
MAX_EDGES = 9
#: Channels of the three stacks; the stem has as many as the first stack.
WIDTHS = (128, 256, 512)
CELLS_PER_STACK = 3
EPOCHS = (108, 36, 12, 4)
#: Version of the reader, which goes up when the same file gives another table.
VERSION = 1

_LABELS = {"input": -1, "output": -2} | {operation: label for label, operation in enumerate(OPERATIONS)}
_SHORT = {operation.removesuffix("-bn-relu"): operation for operation in OPERATIONS}
_FILE = "nb101_20001.csv"

Matrix = Sequence[Sequence[int]]


class Spec(NamedTuple):
    """A cell: the upper triangular matrix of its edges, and the operations of its vertices from `input` to `output`."""

    matrix: Matrix
    operations: Sequence[str]


def parse(architecture: str) -> Spec:
    """Read `operation:edges,...,output:edges`, which lists all vertices but the input.

    The edges of vertex t are its column of the matrix above the diagonal. They are t digits: the first digit is the
    edge from the input, the second the edge from vertex 1, and so on. Operations have no ending `-bn-relu`.

    Raises:
        ArchitectureError: The text has another form, an unknown operation, or too many vertices or edges.

    Example:
        >>> parse("conv3x3:1,maxpool3x3:01,output:101").matrix
        [[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    """
    try:
        vertices = [vertex.partition(":")[::2] for vertex in architecture.split(",")]
        _check(vertices)
    except ValueError as error:
        raise bad_architecture(architecture, error) from None
    columns = [edges.ljust(len(vertices) + 1, "0") for _, edges in [("input", ""), *vertices]]
    operations = ["input", *(_SHORT[name] for name, _ in vertices[:-1]), "output"]
    return Spec([[int(edge) for edge in row] for row in zip(*columns, strict=True)], operations)


def _check(vertices: Sequence[tuple[str, str]]) -> None:
    if len(vertices) >= MAX_VERTICES:
        raise ValueError(f"expected up to {MAX_VERTICES} vertices with input and output, got {len(vertices) + 1}")
    for position, (name, edges) in enumerate(vertices, 1):
        if name not in (known := _SHORT if position < len(vertices) else ("output",)):
            raise ValueError(f"vertex {position} is '{name[:40]}', expected {', '.join(known)}")
        if len(edges) != position or not set(edges) <= {"0", "1"}:
            raise ValueError(f"vertex {position} has edges '{edges[:40]}', expected {position} digits of 0 and 1")
    if (count := sum(edges.count("1") for _, edges in vertices)) > MAX_EDGES:
        raise ValueError(f"expected up to {MAX_EDGES} edges, got {count}")


def text(matrix: Matrix, operations: Sequence[str]) -> str:
    """Return the text of a cell, the inverse of `parse`."""
    return ",".join(
        f"{operations[vertex].removesuffix('-bn-relu')}:{''.join(str(row[vertex]) for row in matrix[:vertex])}"
        for vertex in range(1, len(operations))
    )


def prune(matrix: Matrix, operations: Sequence[str]) -> Spec:
    """Return the cell without the vertices that lie on no path from input to output. Its network is the same.

    Raises:
        ArchitectureError: No path leads from input to output.
    """
    count = len(operations)
    walks = np.linalg.matrix_power(np.eye(count, dtype=int) + np.asarray(matrix), count)
    if not walks[0, -1]:
        raise bad_architecture(text(matrix, operations), "no path from input to output")
    kept = [vertex for vertex in range(count) if walks[0, vertex] and walks[vertex, -1]]
    return Spec([[matrix[s][t] for t in kept] for s in kept], [operations[vertex] for vertex in kept])


def spec_hash(matrix: Matrix, operations: Sequence[str]) -> str:
    """Return the published key of a pruned cell, 32 hexadecimal digits. It does not depend on the order of vertices.

    Ying et al., NAS-Bench-101, ICML 2019, section 2.1 and its released code.
    """
    vertices = range(len(operations))
    sources = [[s for s in vertices if matrix[s][vertex]] for vertex in vertices]
    targets = [[t for t in vertices if matrix[vertex][t]] for vertex in vertices]
    hashes = [_md5(str((len(targets[v]), len(sources[v]), _LABELS[operations[v]]))) for v in vertices]
    for _ in vertices:
        before, after = (["".join(sorted(hashes[v] for v in near)) for near in side] for side in (sources, targets))
        hashes = [_md5("|".join(parts)) for parts in zip(before, after, hashes, strict=True)]
    return _md5(str(sorted(hashes)))


def _md5(content: str) -> str:
    return hashlib.md5(content.encode(), usedforsecurity=False).hexdigest()


def vertex_widths(matrix: Matrix, outputs: int) -> dict[int, int]:
    """Return the channels of every vertex between input and output of a pruned cell.

    The vertices with an edge to the output share its channels; the first of them get one channel more if the division
    leaves a remainder. Any other vertex has as many channels as the widest vertex that it feeds. So the order of the
    vertices matters: cells with the same key can differ in size.

    Example:
        >>> vertex_widths(parse("conv3x3:1,conv1x1:11,conv1x1:010,maxpool3x3:1000,output:00111").matrix, 128)
        {2: 43, 3: 43, 4: 42, 1: 43}
    """
    inner = range(1, len(matrix) - 1)
    joined = [vertex for vertex in inner if matrix[vertex][-1]]
    share, remainder = divmod(outputs, len(joined) or 1)
    widths = {vertex: share + (place < remainder) for place, vertex in enumerate(joined)}
    for vertex in reversed(inner):
        if vertex not in widths:
            widths[vertex] = max(widths[target] for target in inner if matrix[vertex][target])
    return widths


class ConvBnRelu(nn.Sequential):
    """A convolution without bias, a batch norm and a ReLU.

    The PyTorch ports use this class name. Some proxies choose modules whose class name contains "ReLU".
    """

    def __init__(self, convolution: Conv) -> None:
        super().__init__(convolution.build(), nn.BatchNorm2d(convolution.outputs), nn.ReLU())


class Cell(nn.Module):
    """The cell. Every vertex applies its operation to the sum of its edges. The output is a concatenation.

    Every edge from the input has its own 1 x 1 convolution. The edge from the input to the output is added to the
    concatenation. Another edge loses the last channel if its source has one channel more than its target.
    """

    def __init__(self, spec: Spec, inputs: int, outputs: int) -> None:
        super().__init__()
        matrix, operations = spec
        *inner, last = range(1, len(operations))
        self.widths = vertex_widths(matrix, outputs) | {last: outputs}
        self.sources = {t: [s for s in inner if matrix[s][t]] for t in (*inner, last)}
        self.operations = nn.ModuleDict({str(t): _operation(operations[t], self.widths[t]) for t in inner})
        self.projections = nn.ModuleDict(
            {str(t): ConvBnRelu(Conv(inputs, self.widths[t], (1, 1))) for t in (*inner, last) if matrix[0][t]}
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H, W)`."""
        *inner, last = self.sources
        vertices: dict[int, Tensor] = {}
        for t in inner:
            terms = [vertices[s][:, : self.widths[t]] for s in self.sources[t]]
            vertices[t] = self.operations[str(t)](self._sum(terms, t, x))
        joined = [torch.cat([vertices[s] for s in self.sources[last]], 1)] if inner else []
        return self._sum(joined, last, x)

    def _sum(self, terms: list[Tensor], t: int, x: Tensor) -> Tensor:
        if str(t) in self.projections:
            terms.append(self.projections[str(t)](x))
        return functools.reduce(torch.add, terms)


def _operation(name: str, width: int) -> nn.Module:
    if name == "maxpool3x3":
        return nn.MaxPool2d(3, stride=1, padding=1)
    return ConvBnRelu(_convolution(name, width))


def _convolution(operation: str, width: int) -> Conv:
    return Conv(width, width, (3, 3) if operation == "conv3x3-bn-relu" else (1, 1))


class Network(nn.Module):
    """A whole network of a pruned cell: stem, three stacks of three cells, head. The resolution halves between stacks.

    The weights are drawn as in the PyTorch ports: convolutions with standard deviation sqrt(2 / (k^2 outputs)), the
    classifier with 0.01.
    """

    def __init__(self, spec: Spec, num_classes: int) -> None:
        super().__init__()
        self.stem = ConvBnRelu(Conv(3, WIDTHS[0], (3, 3)))
        self.layers = nn.ModuleList()
        inputs = WIDTHS[0]
        for outputs in WIDTHS:
            if outputs != inputs:
                self.layers.append(nn.MaxPool2d(2))
            for _ in range(CELLS_PER_STACK):
                self.layers.append(Cell(spec, inputs, outputs))
                inputs = outputs
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(WIDTHS[-1], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, 0.0, math.sqrt(2 / (module.kernel_size[0] ** 2 * module.out_channels)))
        nn.init.normal_(self.classifier.weight, 0.0, 0.01)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to logits `(N, num_classes)`."""
        features = self.stem(x)
        for layer in self.layers:
            features = layer(features)
        logits: Tensor = self.classifier(self.global_pooling(features).flatten(1))
        return logits


def _blocks(spec: Spec, image_size: int) -> Iterator[Block]:
    """Yield all convolutions of a network."""
    yield Block([Conv(3, WIDTHS[0], (3, 3))], image_size)
    inputs = WIDTHS[0]
    for stack, outputs in enumerate(WIDTHS):
        side = image_size >> stack
        widths = [0, *(width for _, width in sorted(vertex_widths(spec.matrix, outputs).items())), outputs]
        for cell in range(CELLS_PER_STACK):
            for edge, operation, width in zip(spec.matrix[0], spec.operations, widths, strict=True):
                if edge:
                    yield Block([Conv(outputs if cell else inputs, width, (1, 1))], side)
                if operation.startswith("conv"):
                    yield Block([_convolution(operation, width)], side)
        inputs = outputs


class NasBench101(ListedSpace):
    """NAS-Bench-101: the networks in the user's table. Any other cell can be built from its text."""

    memory_format = torch.channels_last  # convolutions on CPUs are then 1.3 to 1.8 times faster
    name = "nb101"
    paper = "Ying et al., NAS-Bench-101, ICML 2019"
    # The file does not say what its accuracies are. Each is a whole number of 9,984 images, so none is a mean over
    # trainings. NASLib's file has trainings of 17 of these networks. After 108 epochs, none of these is more accurate.
    truths: Mapping[str, Mapping[str, str]] = {
        "cifar10": {
            f"valid-{epochs}": f"validation accuracy after {epochs} epochs, one training of three, "
            f"{'apparently the best' if epochs == 108 else 'not said which'} ({_FILE})"
            for epochs in EPOCHS
        }
    }

    def canonical(self, architecture: str) -> str:
        """Return the text of the pruned cell. The vertices keep their order, because the channels depend on it."""
        return text(*prune(*parse(architecture)))

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        return Network(prune(*parse(architecture)), task.num_classes)

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network.

        With ten classes, the parameters equal those in the file if the vertices are in the order of the training.
        """
        blocks = _blocks(prune(*parse(architecture)), task.image_size)
        return sizes(blocks, WIDTHS[-1], task.num_classes)

    def read_table(self) -> Table:
        """Read the networks and their accuracies, and check the key of each cell."""
        path = find(self.name, self.folder)
        return converted([path], self.name, VERSION, lambda: _read(path))


def _read(path: Path) -> Table:
    budgets = [f"{epochs}_final_validation_accuracy" for epochs in EPOCHS]
    keys: set[str] = set()

    def read(row: Mapping[str, str]) -> tuple[str, list[float]]:
        spec = prune(*_stored(row["matrix"], row["ops"]))
        key = row["key"]
        if (found := spec_hash(*spec)) != key:
            raise ValueError(f"expected a cell of key {found}, got key {key[:40]}")
        if key in keys:
            raise ValueError(f"key {key} occurs twice")
        keys.add(key)
        return text(*spec), [100 * number(row[budget], (0.0, 1.0)) for budget in budgets]

    names = [f"cifar10/valid-{epochs}" for epochs in EPOCHS]
    return table(path, names, read_csv(path, ["key", "ops", "matrix", *budgets], read))


def _stored(matrix: str, operations: str) -> Spec:
    """Read a cell from the JSON texts of its matrix and its operations."""
    rows, names = _json(matrix), _json(operations)
    size = len(names)
    if unknown := [name for name in names if name not in list(_LABELS)]:
        raise ValueError(f"unknown operation {str(unknown[0])[:40]}, expected {', '.join(_LABELS)}")
    if names[:1] != ["input"]:
        raise ValueError(f"expected input as the first operation, got {', '.join(names)[:80]}")
    if len(rows) != size or not all(type(row) is list and len(row) == size for row in rows):
        raise ValueError(f"expected a matrix of {size} x {size} for {size} operations, got {matrix[:100]}")
    if not all(type(edge) is int and 0 <= edge <= (s < t) for s, row in enumerate(rows) for t, edge in enumerate(row)):
        raise ValueError(f"expected an upper triangular matrix of 0 and 1, got {matrix[:100]}")
    return parse(text(rows, names))


def _json(content: str) -> list[Any]:
    if len(content) > 1000:
        raise ValueError(f"expected a short list, got {len(content)} characters")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if type(found) is not list:
        raise ValueError(f"expected a list in JSON, got {content[:80]}")
    return found


SPACES.add(NasBench101.name, NasBench101)
