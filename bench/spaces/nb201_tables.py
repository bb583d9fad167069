"""Trained accuracies of NAS-Bench-201, from the files that people have."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
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

#: By task, the accuracies at hand; the first is the default.
TRUTHS: Mapping[str, Mapping[str, str]] = {
    "cifar10": {"test-200": _MEAN_TEST, "analog-baseline": _ANALOG},
    "cifar100": {"test-200": _MEAN_TEST},
    "imagenet16-120": {"test-200": _MEAN_TEST},
}
_COLUMNS = {
    "cifar10": "CIFAR10TestAccuracy200Epochs",
    "cifar100": "CIFAR100TestAccuracy200Epochs",
    "imagenet16-120": "ImageNetTestAccuracy200Epochs",
}
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
        path = find("nb201", folder)
        values = _by_index(path, _read_csv(path, _COLUMNS[task]), index_of)
    return Truth(f"{task}/{which}", TRUTHS[task][which], values)


def _read_csv(path: Path, column: str) -> Iterable[tuple[tuple[str, ...], float]]:
    from .nb201 import parse

    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = csv.DictReader(stream, strict=True)
            missing = {column, "ArchitectureString"} - set(rows.fieldnames or ())
            if missing:
                found = ", ".join(rows.fieldnames or ("nothing",))
                raise DataFileError(
                    f"data file {path}: expected columns {', '.join(sorted(missing))}, got {found[:80]}"
                )
            for line, row in enumerate(rows, start=2):
                try:
                    yield parse(row["ArchitectureString"] or ""), float(row[column])
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
