"""The spaces of Network Design Spaces: their base class, and the sweeps of stacked cells.

A sweep is a JSON file with records of trainings. An index is a training. If a network was trained more than once, with
other optimisers or seeds, its later texts have the number of the run: `basic(...)`, `basic(...) (run 2)`.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ...datasets.files.registry import find
from ...datasets.tasks import TASKS, Task
from ...errors import DataFileError, bad_architecture
from ...progress import Progress
from ..cells import Network, Skeleton, blocks, parse_genotype, sizes
from ..space import SPACES, ListedSpace, Sizes, Truth
from ..table import Table, converted, entry, reading, table
from .records import records

#: Version of the reader. It goes up when the same records give another table, or their networks other parameters.
VERSION = 1
#: The sweeps of stacked cells; a sweep has the name of its file.
SWEEPS = (
    *(f"{family}{task}" for family in ("Amoeba", "DARTS", "ENAS", "NASNet", "PNAS") for task in ("", "_in")),
    *(f"{family}_fix-w-d" for family in ("DARTS", "ENAS", "PNAS")),
    *("DARTS_lr-wd", "DARTS_lr-wd_in"),
)

_SOURCE = "nds"
_RUN = re.compile(r" \(run (?:[2-9]|[1-9][0-9]{1,5})\)\Z")
_CELLS = re.compile(r"width=([1-9][0-9]{0,2}),depth=([1-9][0-9]?),(Genotype\(.*[\])]\))")
#: Names of the lists in files with two lists, in the order of the index: runs of a good and of a mediocre network.
_GROUPS = ("top", "mid")
#: Number of bytes above which reading takes more than a few seconds.
_MANY = 1 << 26


def space_name(sweep: str) -> str:
    """Return the name of the space of a sweep.

    Example:
        >>> space_name("DARTS_lr-wd_in")
        'nds_darts_lr_wd_in'
    """
    return f"nds_{sweep.lower().replace('-', '_')}"


def without_run(architecture: str) -> str:
    """Return a text without the number of its run."""
    return _RUN.sub("", architecture)


class Nds(ListedSpace):
    """A sweep of Network Design Spaces, with test accuracies after the last epoch and after the best epoch."""

    memory_format = torch.channels_last  # convolutions on CPUs are then 1.3 to 1.8 times faster
    paper = "Radosavovic et al., ICCV 2019"

    def __init__(self, sweep: str, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.sweep = sweep
        self.name = space_name(sweep)
        self.task = "imagenet" if sweep.endswith("_in") else "cifar10"
        self.truths = {
            self.task: {
                "test-final": f"test accuracy after the last epoch (NDS's {sweep}.json)",
                "test-best": f"test accuracy after its best epoch (NDS's {sweep}.json)",
            }
        }

    @abstractmethod
    def spell(self, architecture: str) -> str:
        """Return the text of a network in the spelling of the table, without the number of its run.

        Raises:
            ArchitectureError: The text does not describe a network of the sweep.
        """

    @abstractmethod
    def describe(self, net: Mapping[str, Any]) -> str:
        """Return the text of a record's network. It may be faulty, because only `spell` checks it."""

    def trained_params(self, architecture: str, net: Mapping[str, Any]) -> int:
        """Return the number of parameters that were trained, which may include an auxiliary head."""
        del net
        return self.params(architecture, TASKS[self.task])

    def canonical(self, architecture: str) -> str:
        """Return the text in the spelling of the table."""
        return self.spell(architecture) + architecture[len(without_run(architecture)) :]

    def read_table(self) -> Table:
        """Read networks and accuracies, also the stated parameters and flops, and the parameters of the networks here.

        Raises:
            DataFileError: The file is absent, torn or no list of records, or a record is faulty.
        """
        path = find(_SOURCE, self.folder, f"nds_data/{self.sweep}.json")
        return converted([path], self.name, VERSION, lambda: self._read(path))

    def read_truth(self, task: str, which: str) -> Truth:
        """Return a column of the table. The label states how many networks differ from those that were trained."""
        truth = super().read_truth(task, which)
        columns = self.table.columns
        if others := int((columns["record/params"] != columns["built/params"]).sum()):
            doubt = f"; {others} of {self.size} records state other parameters than the networks built here have"
            truth = dataclasses.replace(truth, label=truth.label + doubt)
        return truth

    def _read(self, path: Path) -> Table:
        rows: dict[str, list[tuple[str, list[float]]]] = {}
        size = path.stat().st_size
        with (
            Progress(f"reading {path.name}, bytes", size, shown=size > _MANY) as progress,
            reading(path, "JSON"),
            path.open("rb") as raw,
            io.TextIOWrapper(raw, "utf-8") as stream,
        ):
            for number, (group, record) in enumerate(records(stream)):
                with entry(path, f", record {number}", "a training"):
                    row = self._row(record)
                rows.setdefault(group, []).append(row)
                progress.update(raw.tell())
        if rows and set(rows) not in ({""}, set(_GROUPS)):
            raise DataFileError(
                f"data file {path}: expected a list of records, or lists {' and '.join(_GROUPS)}, "
                f"got {', '.join(sorted(rows))[:80]}"
            )
        names = (f"{self.task}/test-final", f"{self.task}/test-best", "record/params", "record/flops", "built/params")
        return table(path, names, _numbered(row for group in ("", *_GROUPS) for row in rows.get(group, ())))

    def _row(self, record: Any) -> tuple[str, list[float]]:
        architecture = self.spell(self.describe(record["net"]))
        errors = record["test_ep_top1"]
        if len(errors) != record["optim"]["max_ep"]:
            raise ValueError(f"{len(errors)} errors in {str(record['optim']['max_ep'])[:20]} epochs")
        best = record.get("min_test_top1", min(errors))
        for error in (*errors, best):
            if type(error) not in {int, float} or not 0 <= error <= 100:
                raise ValueError(f"expected errors of 0 to 100 %, got {str(error)[:40]}")
        stated = [float(record[size]) for size in ("params", "flops")]
        if not all(0 < size < np.inf for size in stated):
            raise ValueError(f"expected params and flops, got {stated}")
        built = self.trained_params(architecture, record["net"])
        return architecture, [100 - errors[-1], 100 - best, *stated, built]


def _numbered(rows: Iterator[tuple[str, list[float]]]) -> Iterator[tuple[str, list[float]]]:
    """Add the number of the run to the texts of later trainings of a network."""
    seen: Counter[str] = Counter()
    for architecture, values in rows:
        seen[architecture] += 1
        run = seen[architecture]
        yield architecture if run == 1 else f"{architecture} (run {run})", values


class NdsCells(Nds):
    """A sweep of networks of stacked cells.

    A text is `width=36,depth=20,Genotype(...)`: the channels of the first cells, the number of cells, and the genotype
    as DARTS prints it. Networks are built without the auxiliary head that some trainings had.
    """

    def __init__(self, sweep: str, folder: Path | None = None) -> None:
        super().__init__(sweep, folder)
        self.nodes = 4 if sweep.startswith("DARTS") else 5

    def skeleton(self, architecture: str) -> Skeleton:
        """Read the genotype, the width and the depth of a network.

        Raises:
            ArchitectureError: The text has another form, or does not describe a network of the sweep.
        """
        found = _CELLS.fullmatch(without_run(architecture))
        if found is None:
            raise bad_architecture(architecture, "expected width=36,depth=20,Genotype(...)")
        width, depth, genotype = int(found[1]), int(found[2]), parse_genotype(found[3])
        if {len(genotype.normal), len(genotype.reduce)} != {2 * self.nodes}:
            raise bad_architecture(architecture, f"expected {self.nodes} nodes a cell")
        if self.task == "imagenet" and width % 2:
            raise bad_architecture(architecture, "expected an even width, because the stem halves it")
        return Skeleton(genotype, width, depth, "imagenet" if self.task == "imagenet" else "cifar")

    def spell(self, architecture: str) -> str:
        """Return the text with the genotype as DARTS prints it."""
        skeleton = self.skeleton(architecture)
        return f"width={skeleton.width},depth={skeleton.depth},{skeleton.genotype}"

    def describe(self, net: Mapping[str, Any]) -> str:
        """Return the text of a record's network."""
        cells = net["genotype"]
        normal, reduce = ([tuple(edge) for edge in cells[cell]] for cell in ("normal", "reduce"))
        return (
            f"width={net['width']},depth={net['depth']},"
            f"Genotype(normal={normal}, normal_concat={cells['normal_concat']}, "
            f"reduce={reduce}, reduce_concat={cells['reduce_concat']})"
        )

    def trained_params(self, architecture: str, net: Mapping[str, Any]) -> int:
        """Return the number of parameters, with those of the auxiliary head if the record states one."""
        auxiliary, task = net["aux"], TASKS[self.task]
        if type(auxiliary) is not bool:
            raise ValueError(f"expected aux to be true or false, got {str(auxiliary)[:40]}")
        return sizes(self.skeleton(architecture), task.num_classes, task.image_size, auxiliary=auxiliary).params

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network, without an auxiliary head, in PyTorch's default initialisation."""
        return Network(self.skeleton(architecture), task.num_classes)

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network, without an auxiliary head."""
        return sizes(self.skeleton(architecture), task.num_classes, task.image_size)

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return the width, the depth, and the number of edges with convolutions in both cells."""
        genotype, width, depth, _ = self.skeleton(architecture)
        edges = (*genotype.normal, *genotype.reduce)
        convolutions = sum(bool(blocks(operation, 1, 1)) for operation, _ in edges)
        return {"width": width, "depth": depth, "convolutions": convolutions}


for _sweep in SWEEPS:
    SPACES.add(space_name(_sweep), functools.partial(NdsCells, _sweep))
