"""A reader of the simple release of NATS-Bench: a folder with one pickle per network, which holds its trainings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..datasets.files.registry import find
from ..datasets.files.unpickle import RECORDS, unpickle
from ..errors import DataFileError
from ..progress import Progress
from .space import Truth
from .table import converted, entry, table

#: Version of the reader, which goes up when the same records give another table.
VERSION = 1
TASKS = ("cifar10", "cifar100", "imagenet16-120")

#: For each task and kind of accuracy, the data set of the training and the set of the evaluation.
_EVALUATED = {
    ("cifar10", "test"): ("cifar10", "ori-test"),
    ("cifar10", "valid"): ("cifar10-valid", "x-valid"),
    ("cifar100", "test"): ("cifar100", "x-test"),
    ("cifar100", "valid"): ("cifar100", "x-valid"),
    ("imagenet16-120", "test"): ("ImageNet16-120", "x-test"),
    ("imagenet16-120", "valid"): ("ImageNet16-120", "x-valid"),
}
# Validation accuracies on CIFAR-10 are of networks that were trained on half of its images. On the other data sets,
# the same networks have both accuracies.
WORDS = {"test": "test accuracy", "valid": "validation accuracy"}
#: Number of records above which reading takes more than a second or two.
_MANY = 400


@dataclass(frozen=True)
class Accuracy:
    """One accuracy: `test` or `valid`, after a number of epochs, of one seed or the mean over all seeds (None)."""

    kind: str
    epochs: int
    seed: int | None = None

    @property
    def label(self) -> str:
        """The description of the accuracy."""
        seeds = "mean over seeds" if self.seed is None else f"seed {self.seed}, where a network was trained with it"
        return f"{WORDS[self.kind]} after {self.epochs} epochs, {seeds} (simple release of NATS-Bench)"

    def read(self, record: Mapping[str, Any], task: str) -> float:
        """Return the accuracy of a record in percent; NaN if the record has no such training.

        Raises:
            ValueError: The value in the record is no accuracy.
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
    """The release of one space. The first file of its source lies in the folder of the records."""

    source: str
    accuracies: Mapping[str, Accuracy]
    index: Callable[[str], int]
    size: int

    def truth(self, task: str, which: str, folder: Path) -> Truth:
        """Return one accuracy in the order of the index; NaN if the folder has no record of a network.

        The label states the number of networks with a record. The first call reads all accuracies of all records, in
        two minutes, and keeps them for later calls.

        Raises:
            DataFileError: The folder is absent or has no records, a record is faulty, or a mean over seeds is missing.
        """
        records = find(self.source, folder).parent
        paths = sorted(records.glob("[0-9]*.pickle.pbz2"))
        if not paths:
            raise DataFileError(
                f"data folder {records} has no records: unpack the simple release of NATS-Bench there, see "
                "https://github.com/D-X-Y/NATS-Bench"
            )
        names = [f"{task}/{which}" for task in TASKS for which in self.accuracies]
        found = converted(paths, "records", VERSION, lambda: table(records, names, self._rows(paths)))
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

    def _rows(self, paths: list[Path]) -> Iterator[tuple[str, list[float]]]:
        """Yield the network of each record, and its accuracies by task and name."""
        with Progress(f"reading {len(paths)} records", len(paths), shown=len(paths) > _MANY) as progress:
            for path in paths:
                record = unpickle(path, RECORDS)
                with entry(path, "", "a record of trainings"):
                    texts = {str(trainings["arch_str"]) for trainings in record.values()}
                    if len(texts) != 1:
                        raise ValueError(f"trainings of {len(texts)} networks")
                    (architecture,) = texts
                    index = self.index(architecture)
                    if index != int(path.name.partition(".")[0]):
                        raise ValueError(f"it is network {index}")
                    row = [known.read(record, task) for task in TASKS for known in self.accuracies.values()]
                yield architecture, row
                progress.advance(1)
