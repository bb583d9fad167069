"""The trained accuracies of NAS-Bench-201: the five kinds of files that hold them, and a reader of each kind."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...datasets.files.registry import find
from ...datasets.files.unpickle import RECORDS, Allowed, Bag, unpickle
from ...errors import DataFileError
from ..nats import TASKS, WORDS, Accuracy, Release
from ..space import Truth
from ..table import Table, by_index, converted, entry, number, read_column
from .network import EDGES, OPERATIONS, SIZE, index, indices

T = TypeVar("T")


@dataclass(frozen=True)
class Reader:
    """The description of an accuracy, and a function of a task and the data folder that reads its values."""

    label: str
    values: Callable[[str, Path], NDArray[np.float64]]

    def read(self, task: str, which: str, folder: Path) -> Truth:
        """Return the accuracies of a task in the order of the index."""
        values = self.values(task, folder)
        known = int(np.isfinite(values).sum())
        note = "" if known == SIZE else f", {known} of {SIZE} networks"
        return Truth(f"{task}/{which}", self.label + note, values)


@dataclass(frozen=True)
class _Simple:
    """A reader of an accuracy from the simple release of NATS-Bench."""

    label: str

    def read(self, task: str, which: str, folder: Path) -> Truth:
        return Release("nats-tss", SIMPLE, index, SIZE).truth(task, which, folder)


def _column(source: str, architecture: str, columns: Mapping[str, str], task: str, folder: Path) -> NDArray[np.float64]:
    """Read a column of a table of text with one row per network."""
    return read_column(find(source, folder), architecture, columns[task], index, SIZE)


def _robot(task: str, folder: Path) -> NDArray[np.float64]:
    """Read one of RoBoT's pickled lists, which are in the order of the index."""
    path = find("nb201-robot", folder, f"tables/nb201/nb2_{_ROBOT[task]}_test_accuracy.p")
    found = _unpickled(path, RECORDS, list, "a list of accuracies")
    if len(found) != SIZE:
        raise DataFileError(f"data file {path}: expected {SIZE} accuracies, got {len(found)}; get it again")
    return _values(path, enumerate(found), int, number)


def _runs(run: int | None, task: str, folder: Path) -> NDArray[np.float64]:
    """Read a training, from 1, or the mean over all trainings (None) from a pickled dictionary of one to three a cell.

    A key is six numbers of operations, in the order of the text and numbered as in `OPERATIONS`.
    """
    del task
    path = find("nb201-seeds", folder)

    def accuracy(runs: Any) -> float:
        if not isinstance(runs, list) or not 1 <= len(runs) <= 3:
            raise ValueError(f"expected a list of one to three accuracies, got {reprlib.repr(runs)[:60]}")
        checked = [number(run) for run in runs]
        if run is None:
            return float(np.mean(checked))
        # The infinity becomes a NaN later. A NaN here would make the network count as missing in the file.
        return checked[run - 1] if run <= len(checked) else np.inf

    found = _unpickled(path, {}, dict, "trainings by cell")
    values = _values(path, found.items(), lambda key: _index_of(key, OPERATIONS), accuracy)
    values[np.isinf(values)] = np.nan
    return values


def _analog(task: str, folder: Path) -> NDArray[np.float64]:
    """Return the accuracies of the package `analog-nasbench` before their conversion to analog hardware."""
    del task
    path = find("nb201-analog", folder)

    def read() -> Table:
        values = _read_analog(path)
        return Table(path, tuple(map(str, range(SIZE))), {"baseline": values})

    return converted([path], "nb201-analog", 1, read, beside=False).columns["baseline"]


def _read_analog(path: Path) -> NDArray[np.float64]:
    module = "analognasbench.data"
    allowed = {(module, "Architecture"): Bag, (module, "DriftMeasurement"): Bag}
    found = _unpickled(path, allowed, dict, "cells with a baseline_accuracy")
    # The package numbers operations as NASLib does, and sorts edges by source: 0-1, 0-2, 0-3, 1-2, 1-3, 2-3.
    operations = ("skip_connect", "none", "nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3")
    order = (0, 1, 3, 2, 4, 5)
    return _values(
        path,
        found.items(),
        lambda key: _index_of(key, operations, order),
        lambda record: number(record.baseline_accuracy),
    )


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


#: The accuracies of the simple release by name.
SIMPLE = {
    **{f"simple-{kind}-{epochs}": Accuracy(kind, epochs) for epochs in (200, 12) for kind in ("test", "valid")},
    **{f"simple-test-200-seed{seed}": Accuracy("test", 200, seed) for seed in (777, 888, 999)},
}

_ROBOT = dict(zip(TASKS, ("cf10", "cf100", "im120"), strict=True))
_MEAN_COLUMNS = {
    "cifar10": "CIFAR10TestAccuracy200Epochs",
    "cifar100": "CIFAR100TestAccuracy200Epochs",
    "imagenet16-120": "ImageNetTestAccuracy200Epochs",
}
_MEAN = Reader(
    "test accuracy after 200 epochs, mean over seeds (nats_bench.csv)",
    partial(_column, "nb201", "ArchitectureString", _MEAN_COLUMNS),
)
_VALID = Reader(
    "validation accuracy after 200 epochs on half of the training images, mean over seeds (nb201_core.csv)",
    partial(_column, "nb201-core", "arch_str", {"cifar10": "cifar10_valid200"}),
)


def _short(kind: str) -> Reader:
    # The learning rate of these trainings falls to zero within 12 epochs: they are no part of the 200-epoch trainings.
    names = zip(TASKS, ("cifar10", "cifar100", "imagenet16"), strict=True)
    columns = {task: f"ep12_{name}_{kind}" for task, name in names}
    read = partial(_column, "nb201-core", "arch_str", columns)
    return Reader(f"{WORDS[kind]} after 12 epochs (nb201_core.csv)", read)


_EVERYWHERE: Mapping[str, Reader | _Simple] = {
    "test-12": _short("test"),
    "valid-12": _short("valid"),
    "robot-test-200": Reader(
        "test accuracy after 200 epochs, mean over the seeds of an older release (RoBoT's lists)", _robot
    ),
    **{which: _Simple(accuracy.label) for which, accuracy in SIMPLE.items()},
}
_READERS: Mapping[str, Mapping[str, Reader | _Simple]] = {
    "cifar10": {
        "test-200": _MEAN,
        "analog-baseline": Reader(
            "test accuracy of one training, before conversion to analog hardware (analog-nasbench)", _analog
        ),
        "valid-200": _VALID,
        **_EVERYWHERE,
        "runs-test-200-mean": Reader(
            "test accuracy after 200 epochs, mean over one to three trainings (MeCo's dictionary)", partial(_runs, None)
        ),
        **{
            f"runs-test-200-{run}": Reader(
                f"test accuracy after 200 epochs of training {run}, seeds unnamed (MeCo's dictionary)",
                partial(_runs, run),
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


def read_seconds(task: str, which: str, folder: Path) -> NDArray[np.float64] | None:
    """Return the seconds of the trainings behind an accuracy; only those of `valid-12` on CIFAR-10 are in a file.

    They are of twelve epochs on half of the training images, without the time of the evaluation.
    """
    if (task, which) != ("cifar10", "valid-12"):
        return None
    return read_column(find("nb201-core", folder), "arch_str", "ep12_cost_s", index, SIZE, (0.0, np.inf))


def read_truth(task: str, which: str, folder: Path) -> Truth:
    """Read one accuracy of all networks, in the order of the index."""
    return _READERS[task][which].read(task, which, folder)
