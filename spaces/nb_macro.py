"""NAS-Bench-Macro: 6,561 networks of eight layers, each an identity or one of two inverted bottlenecks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ..datasets.files.registry import find
from ..datasets.tasks import Task
from ..errors import ArchitectureError, DataFileError, one_line
from .space import SPACES, Convolution, Space, Truth

STEM_CHANNELS = 32
HEAD_CHANNELS = 1280
#: Layers and width of every stage; its first layer halves the resolution and changes the width.
STAGES = ((2, 64), (3, 128), (3, 256))
#: Expansion and kernel of the inverted bottlenecks MB3_K3 and MB6_K5, by their digit; 0 is the identity.
BOTTLENECKS = {"1": (3, 3), "2": (6, 5)}

_LAYERS = 8
_SOURCE = "nb-macro"
_RUNS = 3
_FILE = "nas-bench-macro_cifar10.json"


class Layer(NamedTuple):
    """One of the eight layers: its digit, its widths and its stride."""

    choice: str
    inputs: int
    outputs: int
    stride: int


def layers(architecture: str) -> tuple[Layer, ...]:
    """Read eight digits, the choices from the first layer to the last.

    Raises:
        ArchitectureError: The text is not eight digits of 0, 1 and 2.

    Example:
        >>> layers("22212202")[0]
        Layer(choice='2', inputs=32, outputs=64, stride=2)
    """
    if not re.fullmatch(r"[012]{8}", architecture):
        raise ArchitectureError(
            f"architecture '{architecture[:100]}': expected 8 digits, each 0 (identity), 1 (MB3_K3) or 2 (MB6_K5)"
        )
    choices = iter(architecture)
    width, found = STEM_CHANNELS, []
    for depth, outputs in STAGES:
        for position in range(depth):
            found.append(Layer(next(choices), width, outputs, 1 if position else 2))
            width = outputs
    return tuple(found)


def unique_text(architecture: str) -> str:
    """Write the network with the identities of every stage moved to its end: 3,969 texts, one per distinct network.

    Networks of the same text are the same function and were trained once. The first layer of a stage is never an
    identity, whatever its digit, and keeps its place.

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


class ConvBN(nn.Sequential):
    """Convolution without bias, batch norm."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        )


class InvertedBottleneck(nn.Module):
    """Expand by a 1 x 1, filter every channel, project by a 1 x 1; the input is added where the shapes agree."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int, kernel: int) -> None:
        super().__init__()
        hidden = expansion * inputs
        self.conv = nn.Sequential(
            ConvBN(inputs, hidden, 1),
            nn.ReLU(),
            ConvBN(hidden, hidden, kernel, stride, groups=hidden),
            nn.ReLU(),
            ConvBN(hidden, outputs, 1),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H / stride, W / stride)`."""
        output: Tensor = self.conv(x)
        return x + output if self.residual else output


class Network(nn.Module):
    """A whole network: stem, eight layers in three stages, head.

    Args:
        architecture: Its eight digits.
        num_classes: Of the linear classifier.
    """

    def __init__(self, architecture: str, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(ConvBN(3, STEM_CHANNELS, 3), nn.ReLU())
        self.layers = nn.Sequential(*map(_layer, layers(architecture)))
        self.head = nn.Sequential(ConvBN(STAGES[-1][1], HEAD_CHANNELS, 1), nn.ReLU())
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(HEAD_CHANNELS, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to logits `(N, num_classes)`."""
        features = self.head(self.layers(self.stem(x)))
        logits: Tensor = self.classifier(self.global_pooling(features).flatten(1))
        return logits


def _layer(layer: Layer) -> nn.Module:
    choice, inputs, outputs, stride = layer
    if choice in BOTTLENECKS:
        return InvertedBottleneck(inputs, outputs, stride, *BOTTLENECKS[choice])
    return nn.Identity() if stride == 1 and inputs == outputs else ConvBN(inputs, outputs, 1, stride)


def _convolutions(architecture: str, image_size: int) -> Iterator[Convolution]:
    side = image_size
    yield Convolution(27 * STEM_CHANNELS, STEM_CHANNELS, side)
    for choice, inputs, outputs, stride in layers(architecture):
        smaller = -(-side // stride)
        if choice in BOTTLENECKS:
            expansion, kernel = BOTTLENECKS[choice]
            hidden = expansion * inputs
            yield Convolution(inputs * hidden, hidden, side)
            yield Convolution(kernel**2 * hidden, hidden, smaller)
            yield Convolution(hidden * outputs, outputs, smaller)
        elif stride != 1 or inputs != outputs:
            yield Convolution(inputs * outputs, outputs, smaller)
        side = smaller
    yield Convolution(STAGES[-1][1] * HEAD_CHANNELS, HEAD_CHANNELS, side)


class NasBenchMacro(Space):
    """NAS-Bench-Macro; an index is the eight digits read as a number of base three."""

    name = "nb_macro"
    size = 3**_LAYERS
    paper = "Su et al., Prioritized Architecture Sampling with Monto-Carlo Tree Search, CVPR 2021"
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

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        return Network(architecture, task.num_classes)

    def read_truth(self, task: str, which: str) -> Truth:
        """Read accuracies by index from the benchmark's own file."""
        runs = _read(find(_SOURCE, self.folder), self)
        values = runs.mean(axis=1) if which == "test-mean" else runs[:, int(which.rpartition("-")[2]) - 1].copy()
        return Truth(f"{task}/{which}", self.truths[task][which], values)

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters, the file's own for ten classes."""
        convolutions = _convolutions(architecture, 1)
        return sum(c.weights + 2 * c.channels for c in convolutions) + (HEAD_CHANNELS + 1) * task.num_classes

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates: the file's `flops`, which leave the bias out, and one per class."""
        convolutions = _convolutions(architecture, task.image_size)
        return sum(c.weights * c.side**2 for c in convolutions) + (HEAD_CHANNELS + 1) * task.num_classes


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name stands there twice")
    return record


def _read(path: Path, space: NasBenchMacro) -> NDArray[np.float64]:
    """Read the test accuracies `(6561, 3)` in percent, by index."""
    try:
        table = json.loads(path.read_bytes(), object_pairs_hook=_once)
    except OSError as error:
        raise DataFileError(f"data file {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataFileError(
            f"data file {path} is torn or not JSON ({one_line(str(error))[:100]}): get it anew"
        ) from None
    if not isinstance(table, dict):
        raise DataFileError(f"data file {path}: expected networks with a test_acc, got {type(table).__name__}")
    values = np.full((space.size, _RUNS), np.nan)
    for architecture, record in table.items():
        try:
            values[space.index(architecture)] = _accuracies(record)
        except (ArchitectureError, ValueError, TypeError, KeyError) as error:
            raise DataFileError(
                f"data file {path}, network '{architecture[:40]}': expected a test_acc of three accuracies above 0 and "
                f"up to 100 % ({type(error).__name__}: {error})"
            ) from None
    if missing := int(np.isnan(values[:, 0]).sum()):
        raise DataFileError(
            f"data file {path}: {missing} of {space.size} networks are missing; the file is torn: get it anew"
        )
    return values


def _accuracies(record: Mapping[str, Any]) -> list[float]:
    accuracies: list[float] = record["test_acc"]
    if len(accuracies) != _RUNS or not all(type(a) in {int, float} and 0 < a <= 100 for a in accuracies):
        raise ValueError(f"got {str(accuracies)[:80]}")
    return accuracies


SPACES.add(NasBenchMacro.name, NasBenchMacro)
