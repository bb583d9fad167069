"""The size space of NATS-Bench: 32,768 networks of one cell that differ in the widths of their five stages."""

from __future__ import annotations

import bz2
import io
import struct
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ...datasets.files import find
from ...datasets.unpickle import NUMPY, Allowed, unpickle
from ...datasets.tasks import Task
from ...errors import ArchitectureError, DataFileError
from ..progress import Progress
from .nb201 import EDGES, Cell, ReLUConvBN, ResNetBasicblock, parse
from .space import SPACES, Space, Truth

#: What a stage may have, in the order of the index.
WIDTHS = (8, 16, 24, 32, 40, 48, 56, 64)
#: The cell of all networks.
CELL: Cell = parse("|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|")

_STAGES = 5
_SOURCE = "nats-sss"
#: The keys of epochs in a record.
_HYPERPARAMETERS = {1: "01", 12: "12", 90: "90"}
#: By task and kind of accuracy, the data set that was trained on and the set that was evaluated.
_EVALUATED = {
    ("cifar10", "test"): ("cifar10", "ori-test"),
    ("cifar10", "valid"): ("cifar10-valid", "x-valid"),
    ("cifar100", "test"): ("cifar100", "x-test"),
    ("cifar100", "valid"): ("cifar100", "x-valid"),
    ("imagenet16-120", "test"): ("ImageNet16-120", "x-test"),
    ("imagenet16-120", "valid"): ("ImageNet16-120", "x-valid"),
}
# Validation on CIFAR-10 is of networks trained on half of its images, elsewhere of the same ones as the test.
_WORDS = {"test": "test accuracy", "valid": "validation accuracy"}
#: Bytes that a record may unpack to; official ones have about 84,000.
_LARGEST = 1 << 24
#: Records that take more than a second or two to read.
_MANY = 400


def widths(architecture: str) -> tuple[int, ...]:
    """Read `c0:c1:c2:c3:c4`, the widths of the five stages.

    Raises:
        ArchitectureError: The text is not five widths of the space.

    Example:
        >>> widths("8:16:24:32:64")
        (8, 16, 24, 32, 64)
    """
    known = {str(width): width for width in WIDTHS}
    texts = architecture.split(":")
    if len(texts) != _STAGES or not known.keys() >= set(texts):
        raise ArchitectureError(
            f"architecture '{architecture[:100]}': expected 5 widths as in 8:16:24:32:64, each {', '.join(known)}"
        )
    return tuple(known[text] for text in texts)


class FactorizedReduce(nn.Module):
    """The skip connection between unequal widths: 1 x 1 convolution without bias, affine batch norm.

    It has the name of the benchmark's own class, which at a stride of two does reduce.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H, W)`."""
        output: Tensor = self.bn(self.conv(x))
        return output


class InferCell(nn.Module):
    """The cell: edges from node 0 change the width, the others keep it; a node is the sum of its edges."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            _operation(operation, inputs if source == 0 else outputs, outputs)
            for operation, (source, _) in zip(CELL, EDGES, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H, W)`."""
        nodes = [x]
        for node in (1, 2, 3):
            edges = [(i, source) for i, (source, target) in enumerate(EDGES) if target == node]
            first, *others = [self.layers[i](nodes[source]) for i, source in edges]
            total: Tensor = first
            for term in others:
                total = total + term
            nodes.append(total)
        return nodes[-1]


def _operation(name: str, inputs: int, outputs: int) -> nn.Module:
    if name == "nor_conv_3x3":
        return ReLUConvBN(inputs, outputs, 3)
    return nn.Identity() if inputs == outputs else FactorizedReduce(inputs, outputs)


class Network(nn.Module):
    """A whole network: stem, cell, reduction, cell, reduction, cell, head.

    Args:
        widths: Channels after each of the five in the middle; the stem has the first as well.
        num_classes: Of the linear classifier.
    """

    def __init__(self, widths: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]))
        self.cells = nn.ModuleList()
        for stage, (inputs, outputs) in enumerate(_pairs(widths)):
            block = ResNetBasicblock if _reduces(stage) else InferCell
            self.cells.append(block(inputs, outputs))
        self.lastact = nn.Sequential(nn.BatchNorm2d(widths[-1]), nn.ReLU())
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(widths[-1], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(N, 3, H, W)` to logits `(N, num_classes)`."""
        features = self.stem(x)
        for cell in self.cells:
            features = cell(features)
        logits: Tensor = self.classifier(self.global_pooling(self.lastact(features)).flatten(1))
        return logits


def _pairs(widths: tuple[int, ...]) -> zip[tuple[int, int]]:
    return zip((widths[0], *widths), widths, strict=False)


def _reduces(stage: int) -> bool:
    return stage % 2 == 1


def _weights(stage: int, inputs: int, outputs: int) -> tuple[int, int]:
    """Return the weights of a stage's convolutions, and how many batch norms of its outputs it has."""
    if _reduces(stage):
        return 9 * inputs * outputs + 9 * outputs**2 + inputs * outputs, 2
    # Two of the five 3 x 3 convolutions come from node 0, as does the skip connection.
    convolutions = 2 * 9 * inputs * outputs + 3 * 9 * outputs**2
    return (convolutions, 5) if inputs == outputs else (convolutions + inputs * outputs, 6)


class NatsBenchSize(Space):
    """NATS-Bench's size space; an index is the five widths, each a digit from 8 to 64, as a number of base eight."""

    name = "nats_sss"
    size = len(WIDTHS) ** _STAGES
    paper = "Dong et al., NATS-Bench, TPAMI 2021"
    truths: Mapping[str, Mapping[str, str]] = {
        task: {
            f"{kind}-{epochs}": f"{words} after {epochs} epochs, mean over seeds (simple release of NATS-Bench)"
            for epochs in (90, 12, 1)
            for kind, words in _WORDS.items()
        }
        for task in ("cifar10", "cifar100", "imagenet16-120")
    }

    def architecture(self, index: int) -> str:
        """Return the text of an official index, 0 to 32,767."""
        return ":".join(str(WIDTHS[int(digit)]) for digit in f"{self.check_index(index):0{_STAGES}o}")

    def index(self, architecture: str) -> int:
        """Return the official index of a text."""
        return int("".join(str(WIDTHS.index(width)) for width in widths(architecture)), len(WIDTHS))

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        return Network(widths(architecture), task.num_classes)

    def read_truth(self, task: str, which: str) -> Truth:
        """Read accuracies by official index; NaN where the folder has no record.

        Every record is a file of its own; the whole release takes about two minutes.
        """
        values = _read(find(_SOURCE, self.folder).parent, task, which, self)
        known = int(np.isfinite(values).sum())
        records = "" if known == self.size else f", {known} of {self.size} records at hand"
        return Truth(f"{task}/{which}", self.truths[task][which] + records, values)

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters, the record's own: 11,714 to 713,674 for ten classes."""
        channels = widths(architecture)
        total = (27 + 2) * channels[0] + 2 * channels[-1] + (channels[-1] + 1) * task.num_classes
        for stage, (inputs, outputs) in enumerate(_pairs(channels)):
            weights, norms = _weights(stage, inputs, outputs)
            total += weights + 2 * outputs * norms
        return total

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates, the record's `flop`; the image size is a multiple of four."""
        channels = widths(architecture)
        side = task.image_size
        total = 27 * channels[0] * side**2 + (channels[-1] + 1) * task.num_classes
        for stage, (inputs, outputs) in enumerate(_pairs(channels)):
            side = side // 2 if _reduces(stage) else side
            total += _weights(stage, inputs, outputs)[0] * side**2
        return total


def _scalar(kind: Any, raw: bytes) -> float:
    # A numpy number is a float here; no other kind is in the official records.
    if (kind.code, kind.order) != ("f8", "<"):
        raise ValueError("a number of other than float64")
    value: float
    (value,) = struct.unpack("<d", raw)
    return value


_ALLOWED: Allowed = {
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): NUMPY["numpy", "dtype"],
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
}


@dataclass(frozen=True)
class _Compressed:
    """A file of bz2, opened as what is in it."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def open(self, _: str) -> io.BytesIO:
        with self.path.open("rb") as packed, bz2.open(packed) as stream:
            try:
                content = stream.read(_LARGEST + 1)
            except OSError:  # bz2's own, which has no number
                raise ValueError("no bz2") from None
        if len(content) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes")
        return io.BytesIO(content)


def read_compressed(path: Path) -> Any:
    """Read one `.pickle.pbz2` of the simple release, making nothing but containers, numbers and texts.

    Raises:
        DataFileError: The file cannot be read, is torn, or names anything else; nothing of it was run.
    """
    # The reader of pickles opens its path and names it in errors, and asks no more of it.
    return unpickle(cast("Path", _Compressed(path)), _ALLOWED)


def _read(folder: Path, task: str, which: str, space: NatsBenchSize) -> NDArray[np.float64]:
    """Read one accuracy of every record in the folder, in percent, by index."""
    kind, _, epochs = which.partition("-")
    values = np.full(space.size, np.nan)
    paths = sorted(folder.glob("[0-9]*.pickle.pbz2"))
    progress = Progress(f"reading {len(paths)} records", len(paths)) if len(paths) > _MANY else None
    for path in paths:
        record = read_compressed(path)
        if progress:
            progress.advance(1)
        try:
            index, accuracy = _accuracy(record, *_EVALUATED[task, kind], int(epochs), space)
            if index != int(path.name.partition(".")[0]):
                raise ValueError(f"it is network {index}")
        except (ArchitectureError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DataFileError(
                f"data file {path}: expected a record with {task}/{which} ({type(error).__name__}: {error})"
            ) from None
        if not 0 < accuracy <= 100:
            raise DataFileError(f"data file {path}: expected an accuracy above 0 and up to 100 %, got {accuracy}")
        if not np.isnan(values[index]):
            raise DataFileError(f"data file {path}: network {index} stands there twice")
        values[index] = accuracy
    if progress:
        progress.close()
    if np.isnan(values).all():
        raise DataFileError(
            f"data folder {folder} has no records: unpack the simple release of NATS-Bench (sss) there, see "
            "https://github.com/D-X-Y/NATS-Bench"
        )
    return values


def _accuracy(
    record: Mapping[str, Any], trained: str, evaluated: str, epochs: int, space: NatsBenchSize
) -> tuple[int, float]:
    trainings = record[_HYPERPARAMETERS[epochs]]
    seeds = trainings["dataset_seed"][trained]
    if not seeds:
        raise ValueError(f"no seeds of {trained}")
    accuracies = [trainings["all_results"][trained, seed]["eval_acc1es"][f"{evaluated}@{epochs - 1}"] for seed in seeds]
    return space.index(trainings["arch_str"]), float(np.mean(accuracies))


SPACES.add(NatsBenchSize.name, NatsBenchSize)
