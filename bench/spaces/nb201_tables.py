"""Trained accuracies of NAS-Bench-201, from the files that people have."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.files import find
from ...datasets.unpickle import Bag, unpickle
from ...errors import ArchitectureError, DataFileError
from .space import Truth

_MEAN_TEST = "test accuracy after 200 epochs, mean over seeds (nats_bench.csv)"
_ANALOG = "test accuracy of one training, before conversion to analog hardware (analog-nasbench)"
_MEAN_VALID = "validation accuracy after 200 epochs on half of the training images, mean over seeds (nb201_core.csv)"
# Their learning rate falls to zero within the 12 epochs: no snapshot of the 200.
_SHORT_TEST = "test accuracy after 12 epochs (nb201_core.csv)"
_SHORT_VALID = "validation accuracy after 12 epochs (nb201_core.csv)"
_SHORT = {"test-12": _SHORT_TEST, "valid-12": _SHORT_VALID}

#: By task, the accuracies at hand; the first is the default.
TRUTHS: Mapping[str, Mapping[str, str]] = {
    "cifar10": {"test-200": _MEAN_TEST, "analog-baseline": _ANALOG, "valid-200": _MEAN_VALID, **_SHORT},
    "cifar100": {"test-200": _MEAN_TEST, **_SHORT},
    "imagenet16-120": {"test-200": _MEAN_TEST, **_SHORT},
}


@dataclass(frozen=True)
class _Table:
    """A table of text with one row per network.

    Attributes:
        source: The data source whose first file it is.
        architecture: The column of architecture texts.
        columns: By task and accuracy, the column in percent.
    """

    source: str
    architecture: str
    columns: Mapping[tuple[str, str], str]


_TABLES = (
    _Table(
        "nb201",
        "ArchitectureString",
        {
            ("cifar10", "test-200"): "CIFAR10TestAccuracy200Epochs",
            ("cifar100", "test-200"): "CIFAR100TestAccuracy200Epochs",
            ("imagenet16-120", "test-200"): "ImageNetTestAccuracy200Epochs",
        },
    ),
    _Table(
        "nb201-core",
        "arch_str",
        {
            ("cifar10", "valid-200"): "cifar10_valid200",
            ("cifar10", "test-12"): "ep12_cifar10_test",
            ("cifar10", "valid-12"): "ep12_cifar10_valid",
            ("cifar100", "test-12"): "ep12_cifar100_test",
            ("cifar100", "valid-12"): "ep12_cifar100_valid",
            ("imagenet16-120", "test-12"): "ep12_imagenet16_test",
            ("imagenet16-120", "valid-12"): "ep12_imagenet16_valid",
        },
    ),
)
# analog-nasbench numbers operations as NASLib does, and edges by source: 0-1, 0-2, 0-3, 1-2, 1-3, 2-3.
_ANALOG_OPERATIONS = ("skip_connect", "none", "nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3")
_ANALOG_EDGES = (0, 1, 3, 2, 4, 5)

Cells = Mapping[tuple[str, ...], int]


def read_truth(task: str, which: str, folder: Path, index_of: Cells) -> Truth:
    """Read one column of accuracies into official index order; `index_of` maps cells to indices."""
    if which == "analog-baseline":
        path = find("nb201-analog", folder)
        values = _by_index(path, _read_analog(path), index_of)
    else:
        table = next(table for table in _TABLES if (task, which) in table.columns)
        path = find(table.source, folder)
        values = _by_index(path, _read_csv(path, table.architecture, table.columns[task, which]), index_of)
    return Truth(f"{task}/{which}", TRUTHS[task][which], values)


def _read_csv(path: Path, architecture: str, column: str) -> Iterable[tuple[tuple[str, ...], float]]:
    from .nb201 import parse

    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = csv.DictReader(stream, strict=True)
            missing = {column, architecture} - set(rows.fieldnames or ())
            if missing:
                found = ", ".join(rows.fieldnames or ("nothing",))
                raise DataFileError(
                    f"data file {path}: expected columns {', '.join(sorted(missing))}, got {found[:80]}"
                )
            for line, row in enumerate(rows, start=2):
                try:
                    yield parse(row[architecture] or ""), float(row[column])
                except (ArchitectureError, ValueError, TypeError) as error:
                    raise DataFileError(
                        f"data file {path}, line {line}: {error}; the file is torn: get it anew"
                    ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataFileError(f"data file {path} is not a table of text ({error}): get it anew") from None


def _read_analog(path: Path) -> Iterable[tuple[tuple[str, ...], float]]:
    module = "analognasbench.data"
    table: Any = unpickle(path, {(module, "Architecture"): Bag, (module, "DriftMeasurement"): Bag})
    try:
        for key, record in table.items():
            if len(key) != len(_ANALOG_EDGES) or min(key) < 0:
                raise ValueError(f"no cell: {key}")
            operations = [_ANALOG_OPERATIONS[number] for number in key]
            yield tuple(operations[edge] for edge in _ANALOG_EDGES), float(record.baseline_accuracy)
    except (AttributeError, TypeError, IndexError, ValueError) as error:
        raise DataFileError(f"data file {path}: expected cells with a baseline_accuracy ({error})") from None


def _by_index(path: Path, rows: Iterable[tuple[tuple[str, ...], float]], index_of: Cells) -> NDArray[np.float64]:
    values = np.full(len(index_of), np.nan)
    for cell, accuracy in rows:
        if not 0 < accuracy <= 100:
            raise DataFileError(
                f"data file {path}: expected accuracies above 0 and up to 100 %, got {accuracy} for {cell}"
            )
        index = index_of[cell]
        if not np.isnan(values[index]):
            raise DataFileError(f"data file {path}: {cell} stands there twice")
        values[index] = accuracy
    if missing := int(np.isnan(values).sum()):
        raise DataFileError(
            f"data file {path}: {missing} of {len(values)} networks are missing; the file is torn: get it anew"
        )
    return values
