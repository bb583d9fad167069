"""The simple release of NATS-Bench: a folder with a pickle of every network's trainings, read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..datasets.files.registry import find
from ..datasets.files.unpickle import RECORDS, unpickle
from ..errors import ArchitectureError, DataFileError
from ..progress import Progress
from .space import Truth
from .table import Table, converted, table

#: Goes up when the same records give another table.
VERSION = 1
TASKS = ("cifar10", "cifar100", "imagenet16-120")

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
#: Records that take more than a second or two to read.
_MANY = 400


@dataclass(frozen=True)
class Accuracy:
    """One accuracy of every record: test or validation, after some epochs, of one seed or the mean of all."""

    kind: str
    epochs: int
    seed: int | None = None

    @property
    def label(self) -> str:
        """The same in words."""
        seeds = "mean over seeds" if self.seed is None else f"seed {self.seed}, where a network was trained with it"
        return f"{_WORDS[self.kind]} after {self.epochs} epochs, {seeds} (simple release of NATS-Bench)"

    def read(self, record: Mapping[str, Any], task: str) -> float:
        """Return its percent in a record, NaN where the record has no such training.

        Raises:
            ValueError: It is no accuracy.
        """
        trained, evaluated = _EVALUATED[task, self.kind]
        try:
            trainings = record[f"{self.epochs:02d}"]
            seeds = trainings["dataset_seed"][trained]
        except KeyError:
            return np.nan
        wanted = [seed for seed in seeds if self.seed in {None, seed}]
        results = trainings["all_results"]
        found = [results[trained, seed]["eval_acc1es"][f"{evaluated}@{self.epochs - 1}"] for seed in wanted]
        for accuracy in found:
            if not 0 < accuracy <= 100:
                raise ValueError(f"expected an accuracy above 0 and up to 100 %, got {accuracy}")
        return float(np.mean(found)) if found else np.nan


@dataclass(frozen=True)
class Release:
    """What a space reads of its folder.

    Attributes:
        source: The data source whose first file lies in the folder.
        accuracies: By name.
        index: From a text to an index.
        size: Networks of the space.
    """

    source: str
    accuracies: Mapping[str, Accuracy]
    index: Callable[[str], int]
    size: int

    def truth(self, task: str, which: str, folder: Path) -> Truth:
        """Return one accuracy by index, NaN where the folder has no record; its label says how many there are.

        All accuracies of all records are read at once and kept, so that it takes its two minutes once.

        Raises:
            DataFileError: The folder is absent or has no records, a record is faulty, or lacks a mean over its seeds.
        """
        records = find(self.source, folder).parent
        paths = sorted(records.glob("[0-9]*.pickle.pbz2"))
        if not paths:
            raise DataFileError(
                f"data folder {records} has no records: unpack the simple release of NATS-Bench there, see "
                "https://github.com/D-X-Y/NATS-Bench"
            )
        found = converted(paths, "records", VERSION, lambda: self._read(records, paths))
        column = found.columns[f"{task}/{which}"]
        accuracy = self.accuracies[which]
        if accuracy.seed is None and np.isnan(column).any():
            first = found.architectures[int(np.isnan(column).argmax())]
            raise DataFileError(f"data folder {records}: the record of {first} has no {task}/{which}")
        values: NDArray[np.float64] = np.full(self.size, np.nan)
        values[[self.index(architecture) for architecture in found.architectures]] = column
        known = int(np.isfinite(values).sum())
        at_hand = "" if known == self.size else f", {known} of {self.size} networks at hand"
        return Truth(f"{task}/{which}", accuracy.label + at_hand, values)

    def _read(self, folder: Path, paths: list[Path]) -> Table:
        names = [(task, which) for task in TASKS for which in self.accuracies]
        progress = Progress(f"reading {len(paths)} records", len(paths)) if len(paths) > _MANY else None

        def rows() -> Iterator[tuple[str, list[float]]]:
            for path in paths:
                yield self._row(path, names)
                if progress:
                    progress.advance(1)

        try:
            return table(folder, [f"{task}/{which}" for task, which in names], rows())
        finally:
            if progress:
                progress.close()

    def _row(self, path: Path, names: list[tuple[str, str]]) -> tuple[str, list[float]]:
        record = unpickle(path, RECORDS)
        try:
            texts = {str(trainings["arch_str"]) for trainings in record.values()}
            if len(texts) != 1:
                raise ValueError(f"trainings of {len(texts)} networks")
            (architecture,) = texts
            index = self.index(architecture)
            if index != int(path.name.partition(".")[0]):
                raise ValueError(f"it is network {index}")
            return architecture, [self.accuracies[which].read(record, task) for task, which in names]
        except (ArchitectureError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DataFileError(
                f"data file {path}: expected a record of trainings ({type(error).__name__}: {error})"
            ) from None
