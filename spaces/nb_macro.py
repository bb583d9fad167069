"""NAS-Bench-Macro: 6,561 networks of eight layers, each an identity or one of two inverted bottlenecks."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..datasets.files.registry import find
from ..datasets.tasks import Task
from ..errors import DataFileError, bad_architecture
from ..proxies.operations.skip import skip
from .convolutions import Block, Conv, ConvBN, output_side, sizes
from .space import SPACES, Sizes, Space, Truth
from .table import by_index, entry, reading

STEM_CHANNELS = 32
HEAD_CHANNELS = 1280
#: Layers and width of every stage. The first layer of a stage halves the resolution and changes the width.
STAGES = ((2, 64), (3, 128), (3, 256))
#: Expansion and kernel of the inverted bottlenecks by digit: 1 is MB3_K3, 2 is MB6_K5. The digit 0 is the identity.
BOTTLENECKS = {"1": (3, 3), "2": (6, 5)}

_STEM = Conv(3, STEM_CHANNELS, (3, 3))
_HEAD = Conv(STAGES[-1][1], HEAD_CHANNELS, (1, 1))
_LAYERS = 8
_RUNS = 3
_FILE = "nas-bench-macro_cifar10.json"


class Layer(NamedTuple):
    """One of the eight layers: its digit, the channels before and after it, and its stride."""

    choice: str
    inputs: int
    outputs: int
    stride: int

    def convolutions(self) -> list[Conv]:
        """Return the convolutions of the layer: three of a bottleneck; of an identity, one if it changes the shape."""
        strides = (self.stride, self.stride)
        if self.choice in BOTTLENECKS:
            expansion, kernel = BOTTLENECKS[self.choice]
            hidden = expansion * self.inputs
            return [
                Conv(self.inputs, hidden, (1, 1)),
                Conv(hidden, hidden, (kernel, kernel), strides, groups=hidden),
                Conv(hidden, self.outputs, (1, 1)),
            ]
        return [Conv(self.inputs, self.outputs, (1, 1), strides)] if self.changes_shape else []

    @property
    def changes_shape(self) -> bool:
        """Whether the output has another shape than the input."""
        return self.stride != 1 or self.inputs != self.outputs


def layers(architecture: str) -> tuple[Layer, ...]:
    """Read eight digits, one for each layer from the first to the last.

    Raises:
        ArchitectureError: The text does not consist of eight digits 0, 1 or 2.

    Example:
        >>> layers("22212202")[0]
        Layer(choice='2', inputs=32, outputs=64, stride=2)
    """
    if not re.fullmatch(r"[012]{8}", architecture):
        raise bad_architecture(architecture, "expected 8 digits, each 0 (identity), 1 (MB3_K3) or 2 (MB6_K5)")
    choices = iter(architecture)
    width, found = STEM_CHANNELS, []
    for depth, outputs in STAGES:
        for position in range(depth):
            found.append(Layer(next(choices), width, outputs, 1 if position else 2))
            width = outputs
    return tuple(found)


def unique_text(architecture: str) -> str:
    """Return the text of the network's class: the identities of every stage are moved to its end.

    Networks with the same text are the same function and were trained once; there are 3,969 such texts. The first layer
    of a stage changes the shape, so it is no identity even if its digit is 0. It keeps its place.

    Example:
        >>> unique_text("02001010")
        '02010010'
    """
    layers(architecture)
    start, stages = 0, []
    for depth, _ in STAGES:
        first, rest = architecture[start], architecture[start + 1 : start + depth]
        stages.append(first + rest.replace("0", "").ljust(depth - 1, "0"))
        start += depth
    return "".join(stages)


class Choice(nn.Sequential):
    """A layer of the search space: an inverted bottleneck or an identity.

    A bottleneck is an expansion by a 1 x 1 convolution, a depthwise convolution, and a projection by a 1 x 1
    convolution. Its input is added to the output if both have the same shape. An identity that changes the shape is a
    1 x 1 convolution.
    """

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        if layer.choice in BOTTLENECKS:
            expand, filter_, project = map(ConvBN, layer.convolutions())
            self.conv = nn.Sequential(expand, nn.ReLU(), filter_, nn.ReLU(), project)
        elif layer.changes_shape:
            self.extend(ConvBN(*layer.convolutions()))
        self.residual = layer.choice in BOTTLENECKS and not layer.changes_shape

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        output = x if len(self) else skip(x)
        for part in self:
            output = part(output)
        return x + output if self.residual else output


class Network(nn.Module):
    """A whole network: stem, eight layers in three stages, head."""

    def __init__(self, architecture: str, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(ConvBN(_STEM), nn.ReLU())
        self.layers = nn.Sequential(*map(Choice, layers(architecture)))
        self.head = nn.Sequential(ConvBN(_HEAD), nn.ReLU())
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(HEAD_CHANNELS, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to logits `(N, num_classes)`."""
        features = self.head(self.layers(self.stem(x)))
        logits: Tensor = self.classifier(self.global_pooling(features).flatten(1))
        return logits


class NasBenchMacro(Space):
    """NAS-Bench-Macro. An index is the eight digits, read as a number of base three."""

    memory_format = torch.channels_last  # convolutions on CPUs are then 1.3 to 1.8 times faster
    name = "nb_macro"
    is_exhaustive = True
    size = 3**_LAYERS
    paper = "Su et al., Prioritized Architecture Sampling with Monto-Carlo Tree Search, CVPR 2021"
    trainings: Mapping[str, Mapping[str, tuple[str, ...]]] = {
        "cifar10": {"test-mean": ("test-run-1", "test-run-2", "test-run-3")}
    }
    truths: Mapping[str, Mapping[str, str]] = {
        "cifar10": {
            "test-mean": f"test accuracy, mean over three trainings ({_FILE})",
            **{f"test-run-{run}": f"test accuracy of training {run} of three ({_FILE})" for run in range(1, _RUNS + 1)},
        }
    }

    def architecture(self, index: int) -> str:
        """Return the digits of an index, 0 to 6,560."""
        return np.base_repr(self.check_index(index), 3).zfill(_LAYERS)

    def index(self, architecture: str) -> int:
        """Return the index of eight digits."""
        layers(architecture)
        return int(architecture, 3)

    def mutate(self, architecture: str, generator: random.Random) -> str:
        """Draw one of the 16 networks that have another choice in one layer."""
        layers(architecture)
        place = generator.randrange(_LAYERS)
        choice = generator.choice([digit for digit in "012" if digit != architecture[place]])
        return architecture[:place] + choice + architecture[place + 1 :]

    def representative(self, index: int) -> int:
        """Return the index of the unique text of a network; there are 3,969."""
        return int(unique_text(self.architecture(index)), 3)

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return the class of a network, which is the index of its representative."""
        return {"isomorphism_class": int(unique_text(architecture), 3)}

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        return Network(architecture, task.num_classes)

    def read_truth(self, task: str, which: str) -> Truth:
        """Read accuracies in the order of the index, from the benchmark's own file."""
        path = find("nb-macro", self.folder)
        runs = range(_RUNS) if which == "test-mean" else [int(which.rpartition("-")[2]) - 1]
        rows = ((index, float(np.mean([found[run] for run in runs]))) for index, found in _read(path, self.index))
        return Truth(f"{task}/{which}", self.truths[task][which], by_index(path, rows, self.size))

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network.

        With ten classes, the parameters equal those in the file. The file's `flops` do not count the biases of the
        classifier; the multiply-accumulates here count one per class.
        """
        blocks, side = [], task.image_size
        convolutions = (convolution for layer in layers(architecture) for convolution in layer.convolutions())
        for convolution in (_STEM, *convolutions, _HEAD):
            blocks.append(Block([convolution], side))
            side = output_side(side, convolution.stride[0])
        return sizes(blocks, HEAD_CHANNELS, task.num_classes)


def _read(path: Path, index: Callable[[str], int]) -> Iterator[tuple[int, list[float]]]:
    """Yield the index of each network and its three accuracies in percent."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            raise ValueError("a name occurs twice")
        return record

    with reading(path, "JSON"):
        table = json.loads(path.read_bytes(), object_pairs_hook=once)
    if not isinstance(table, dict):
        raise DataFileError(f"data file {path}: expected networks with a test_acc, got {type(table).__name__}")
    for architecture, record in table.items():
        with entry(path, f", network '{architecture[:40]}'", "a test_acc of three accuracies above 0 and up to 100 %"):
            accuracies = record["test_acc"]
            if len(accuracies) != _RUNS or not all(type(a) in {int, float} and 0 < a <= 100 for a in accuracies):
                raise ValueError(f"got {str(accuracies)[:80]}")
            yield index(architecture), accuracies


SPACES.add(NasBenchMacro.name, NasBenchMacro)
