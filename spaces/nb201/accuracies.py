"""The trained accuracies of NAS-Bench-201: the five kinds of files that hold them, and a reader of each kind."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...datasets.files.registry import find
from ...datasets.files.unpickle import RECORDS, Allowed, Bag, unpickle
from ...errors import DataFileError
from ..nats import TASKS, Accuracy, Release
from ..space import Truth
from ..table import by_index, entry, number, read_column
from .network import EDGES, OPERATIONS, SIZE, index, indices

T = TypeVar("T")


class Reader(Protocol):
    """One accuracy with the file that it is read from."""

    @property
    def label(self) -> str:
        """The description of the accuracy."""

    def read(self, task: str, folder: Path) -> Truth:
        """Return the accuracies of a task in the order of the index; the name of the result is still empty."""


@dataclass(frozen=True)
class _Column:
    """A column of a table of text with one row per network."""

    source: str
    architecture: str
    columns: Mapping[str, str]
    label: str

    def read(self, task: str, folder: Path) -> Truth:
        path = find(self.source, folder)
        return Truth("", self.label, read_column(path, self.architecture, self.columns[task], index, SIZE))


@dataclass(frozen=True)
class _List:
    """A pickled list of accuracies in the order of the index, one file per task."""

    source: str
    files: Mapping[str, str]
    label: str

    def read(self, task: str, folder: Path) -> Truth:
        path = find(self.source, folder, self.files[task])
        found = _unpickled(path, RECORDS, list, "a list of accuracies")
        if len(found) != SIZE:
            raise DataFileError(f"data file {path}: expected {SIZE} accuracies, got {len(found)}; get it anew")
        return Truth("", self.label, _values(path, enumerate(found), int, number))


@dataclass(frozen=True)
class _Runs:
    """A pickled dictionary of the accuracies of one to three trainings of each cell.

    A key is six numbers of operations, in the order of the text and numbered as in `OPERATIONS`.

    Attributes:
        label: Description of the accuracy.
        run: Number of the training, from 1; None for the mean over all trainings.
    """

    label: str
    run: int | None = None

    def read(self, task: str, folder: Path) -> Truth:
        path = find("nb201-seeds", folder)
        found = _unpickled(path, {}, dict, "trainings by cell")
        values = _values(path, found.items(), lambda key: _index_of(key, OPERATIONS), self._accuracy)
        values[np.isinf(values)] = np.nan
        known = int(np.isfinite(values).sum())
        return Truth("", self.label + ("" if known == SIZE else f", {known} of {SIZE} networks"), values)

    def _accuracy(self, runs: Any) -> float:
        if not isinstance(runs, list) or not 1 <= len(runs) <= 3:
            raise ValueError(f"expected a list of one to three accuracies, got {reprlib.repr(runs)[:60]}")
        checked = [number(run) for run in runs]
        if self.run is None:
            return float(np.mean(checked))
        # The infinity becomes a NaN later. A NaN here would make the network count as missing in the file.
        return checked[self.run - 1] if self.run <= len(checked) else np.inf


@dataclass(frozen=True)
class _Analog:
    """The accuracies of the package `analog-nasbench` before their conversion to analog hardware."""

    label: str

    def read(self, task: str, folder: Path) -> Truth:
        path = find("nb201-analog", folder)
        module = "analognasbench.data"
        allowed = {(module, "Architecture"): Bag, (module, "DriftMeasurement"): Bag}
        found = _unpickled(path, allowed, dict, "cells with a baseline_accuracy")
        # The package numbers operations as NASLib does, and sorts edges by source: 0-1, 0-2, 0-3, 1-2, 1-3, 2-3.
        operations = ("skip_connect", "none", "nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3")
        order = (0, 1, 3, 2, 4, 5)
        values = _values(
            path,
            found.items(),
            lambda key: _index_of(key, operations, order),
            lambda record: number(record.baseline_accuracy),
        )
        return Truth("", self.label, values)


@dataclass(frozen=True)
class _Simple:
    """An accuracy of the simple release of NATS-Bench."""

    which: str

    @property
    def label(self) -> str:
        return SIMPLE[self.which].label

    def read(self, task: str, folder: Path) -> Truth:
        return Release("nats-tss", SIMPLE, index, SIZE).truth(task, self.which, folder)


def _unpickled(path: Path, allowed: Allowed, kind: type[T], expected: str) -> T:
    found = unpickle(path, allowed)
    if not isinstance(found, kind):
        raise DataFileError(f"data file {path}: expected {expected}, got {type(found).__name__}")
    return found


def _values(
    path: Path, entries: Iterable[tuple[Any, Any]], index_of: Callable[[Any], int], accuracy: Callable[[Any], float]
) -> NDArray[np.float64]:
    """Return the accuracies of the entries of a pickled list or dictionary, in the order of the index."""

    def rows() -> Iterable[tuple[int, float]]:
        for key, value in entries:
            with entry(path, f", entry {str(key)[:40]}", "a network and its accuracy"):
                yield index_of(key), accuracy(value)

    return by_index(path, rows(), SIZE)


def _index_of(key: Any, operations: tuple[str, ...], order: Iterable[int] = range(len(EDGES))) -> int:
    """Return the index of a cell from the numbers of its operations, taken in the given order."""
    if not isinstance(key, tuple) or len(key) != len(EDGES):
        raise ValueError(f"expected six operation numbers, got {reprlib.repr(key)[:60]}")
    for digit in key:
        if type(digit) is not int or not 0 <= digit < len(operations):
            raise ValueError(f"unknown operation {str(digit)[:20]}, expected 0 to {len(operations) - 1}")
    return indices()[tuple(operations[key[edge]] for edge in order)]


_SEEDS = (777, 888, 999)
#: The accuracies of the simple release by name.
SIMPLE = {
    **{f"simple-{kind}-{epochs}": Accuracy(kind, epochs) for epochs in (200, 12) for kind in ("test", "valid")},
    **{f"simple-test-200-seed{seed}": Accuracy("test", 200, seed) for seed in _SEEDS},
}

_MEAN = _Column(
    "nb201",
    "ArchitectureString",
    {
        "cifar10": "CIFAR10TestAccuracy200Epochs",
        "cifar100": "CIFAR100TestAccuracy200Epochs",
        "imagenet16-120": "ImageNetTestAccuracy200Epochs",
    },
    "test accuracy after 200 epochs, mean over seeds (nats_bench.csv)",
)
_VALID = _Column(
    "nb201-core",
    "arch_str",
    {"cifar10": "cifar10_valid200"},
    "validation accuracy after 200 epochs on half of the training images, mean over seeds (nb201_core.csv)",
)
# The learning rate of these trainings falls to zero within 12 epochs, so they are no part of the 200-epoch trainings.
_SHORT = {
    f"{kind}-12": _Column(
        "nb201-core",
        "arch_str",
        {task: f"ep12_{name}_{kind}" for task, name in zip(TASKS, ("cifar10", "cifar100", "imagenet16"), strict=True)},
        f"{words} after 12 epochs (nb201_core.csv)",
    )
    for kind, words in (("test", "test accuracy"), ("valid", "validation accuracy"))
}
_ROBOT = _List(
    "nb201-robot",
    {
        task: f"tables/nb201/nb2_{name}_test_accuracy.p"
        for task, name in zip(TASKS, ("cf10", "cf100", "im120"), strict=True)
    },
    "test accuracy after 200 epochs, mean over the seeds of an older release (RoBoT's lists)",
)
_EVERYWHERE: Mapping[str, Reader] = {**_SHORT, "robot-test-200": _ROBOT, **{name: _Simple(name) for name in SIMPLE}}
_READERS: Mapping[str, Mapping[str, Reader]] = {
    "cifar10": {
        "test-200": _MEAN,
        "analog-baseline": _Analog(
            "test accuracy of one training, before conversion to analog hardware (analog-nasbench)"
        ),
        "valid-200": _VALID,
        **_EVERYWHERE,
        "runs-test-200-mean": _Runs(
            "test accuracy after 200 epochs, mean over one to three trainings (MeCo's dictionary)"
        ),
        **{
            f"runs-test-200-{run}": _Runs(
                f"test accuracy after 200 epochs of training {run}, seeds unnamed (MeCo's dictionary)", run
            )
            for run in (1, 2, 3)
        },
    },
    "cifar100": {"test-200": _MEAN, **_EVERYWHERE},
    "imagenet16-120": {"test-200": _MEAN, **_EVERYWHERE},
}

#: The names and descriptions of all accuracies by task; the first one is the default.
TRUTHS: Mapping[str, Mapping[str, str]] = {
    task: {which: reader.label for which, reader in readers.items()} for task, readers in _READERS.items()
}


def read_truth(task: str, which: str, folder: Path) -> Truth:
    """Read one accuracy of all networks, in the order of the index."""
    return dataclasses.replace(_READERS[task][which].read(task, folder), name=f"{task}/{which}")
