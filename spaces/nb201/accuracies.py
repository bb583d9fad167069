"""Trained accuracies of NAS-Bench-201, from the files that people have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...datasets.files.registry import find
from ...datasets.files.unpickle import RECORDS, Bag, unpickle
from ...errors import ArchitectureError, DataFileError
from ..nats import TASKS, Accuracy, Release
from ..space import Truth
from ..table import by_index, number, read_csv
from .network import OPERATIONS


class Cells(Protocol):
    """How a space counts its cells."""

    @property
    def size(self) -> int:
        """How many there are."""

    def index(self, architecture: str) -> int:
        """Return the index of a text."""

    def index_of(self, operations: Iterable[str]) -> int:
        """Return the index of six operations, in the order of the text; KeyError for another number or name."""


class Reader(Protocol):
    """A file that accuracies are read from."""

    def read(self, task: str, folder: Path, cells: Cells) -> Truth:
        """Return the accuracies of a task by index."""


@dataclass(frozen=True)
class _Column:
    """A column of a table of text with one row per network."""

    source: str
    architecture: str
    columns: Mapping[str, str]
    label: str

    def read(self, task: str, folder: Path, cells: Cells) -> Truth:
        path, column = find(self.source, folder), self.columns[task]
        rows = read_csv(
            path, (self.architecture, column), lambda row: (cells.index(row[self.architecture]), number(row[column]))
        )
        return Truth("", self.label, by_index(path, rows, cells.size))


@dataclass(frozen=True)
class _List:
    """A pickled list in official index order, a file for every task."""

    source: str
    files: Mapping[str, str]
    label: str

    def read(self, task: str, folder: Path, cells: Cells) -> Truth:
        path = find(self.source, folder, self.files[task])
        found: Any = unpickle(path, RECORDS)
        if not isinstance(found, list):
            raise DataFileError(f"data file {path}: expected a list of accuracies, got {type(found).__name__}")
        if len(found) != cells.size:
            raise DataFileError(f"data file {path}: expected {cells.size} accuracies, got {len(found)}; get it anew")
        return Truth("", self.label, by_index(path, _named(path, enumerate(found), number), cells.size))


@dataclass(frozen=True)
class _Runs:
    """A pickled dictionary of the accuracies of every training, one to three; `run` counts from 1, None is their mean.

    Keys are six operation numbers in the order of the text, numbered as the benchmark numbers them.
    """

    label: str
    run: int | None = None

    def read(self, task: str, folder: Path, cells: Cells) -> Truth:

        path = find("nb201-seeds", folder)
        found: Any = unpickle(path, {})
        if not isinstance(found, dict):
            raise DataFileError(f"data file {path}: expected trainings by cell, got {type(found).__name__}")

        def value(runs: Any) -> float:
            if not isinstance(runs, list) or not 1 <= len(runs) <= 3:
                raise ValueError(f"expected a list of one to three accuracies, got {str(runs)[:60]}")
            checked = [number(run) for run in runs]
            if self.run is None:
                return float(np.mean(checked))
            # Not a number yet: what is missing here is no fault of the file.
            return checked[self.run - 1] if self.run <= len(checked) else np.inf

        rows = ((cells.index_of(OPERATIONS[_digit(n)] for n in key), runs) for key, runs in _keys(path, found))
        values = by_index(path, _named(path, rows, value), cells.size)
        values[np.isinf(values)] = np.nan
        known = int(np.isfinite(values).sum())
        return Truth("", self.label + ("" if known == cells.size else f", {known} of {cells.size} networks"), values)


@dataclass(frozen=True)
class _Analog:
    """The float accuracies of the package `analog-nasbench`."""

    label: str

    def read(self, task: str, folder: Path, cells: Cells) -> Truth:
        path = find("nb201-analog", folder)
        module = "analognasbench.data"
        found: Any = unpickle(path, {(module, "Architecture"): Bag, (module, "DriftMeasurement"): Bag})
        if not isinstance(found, dict):
            raise DataFileError(
                f"data file {path}: expected cells with a baseline_accuracy, got {type(found).__name__}"
            )
        # It numbers operations as NASLib does, and edges by source: 0-1, 0-2, 0-3, 1-2, 1-3, 2-3.
        operations = ("skip_connect", "none", "nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3")
        edges = (0, 1, 3, 2, 4, 5)
        rows = (
            (cells.index_of(operations[_digit(key[edge])] for edge in edges), record)
            for key, record in _keys(path, found)
        )
        values = by_index(path, _named(path, rows, lambda record: number(record.baseline_accuracy)), cells.size)
        return Truth("", self.label, values)


@dataclass(frozen=True)
class _Simple:
    """The simple release of NATS-Bench."""

    which: str

    @property
    def label(self) -> str:
        return SIMPLE[self.which].label

    def read(self, task: str, folder: Path, cells: Cells) -> Truth:
        return Release("nats-tss", SIMPLE, cells.index, cells.size).truth(task, self.which, folder)


def _digit(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 5:
        raise LookupError(f"operation {str(value)[:20]}")
    return value


def _keys(path: Path, found: Mapping[Any, Any]) -> Iterable[tuple[tuple[Any, ...], Any]]:
    for key, value in found.items():
        if not isinstance(key, tuple) or len(key) != 6:
            raise DataFileError(f"data file {path}: expected six operation numbers, got {str(key)[:60]}")
        yield key, value


def _named(path: Path, rows: Iterable[tuple[int, Any]], read: Callable[[Any], float]) -> Iterable[tuple[int, float]]:
    """Read what stands at every index; a fault names the file."""
    index = None
    try:
        for index, value in rows:
            yield index, read(value)
    except (ArchitectureError, AttributeError, LookupError, TypeError, ValueError) as error:
        after = "" if index is None else f", at or after network {index}"
        raise DataFileError(
            f"data file {path}{after}: {type(error).__name__}: {str(error)[:120]}; get it anew"
        ) from None


_SEEDS = (777, 888, 999)
#: Accuracies of the simple release, by their names here.
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
# Their learning rate falls to zero within the 12 epochs: no snapshot of the 200.
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
_READERS: Mapping[str, Mapping[str, Any]] = {
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

#: By task, the accuracies at hand; the first is the default.
TRUTHS: Mapping[str, Mapping[str, str]] = {
    task: {which: reader.label for which, reader in readers.items()} for task, readers in _READERS.items()
}


def read_truth(task: str, which: str, folder: Path, cells: Cells) -> Truth:
    """Read one kind of accuracies into official index order."""
    found: Truth = _READERS[task][which].read(task, folder, cells)
    return Truth(f"{task}/{which}", found.label, found.values)
