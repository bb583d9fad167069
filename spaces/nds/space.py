"""Network Design Spaces: sweeps of trained networks, read from their JSON records; here those of stacked cells.

A sweep lists trainings. Where a network was trained more than once, with other optimisers or seeds, its text stands
there again with the number of the run: `basic(...)`, `basic(...) (run 2)`. An index is a training.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from torch import nn

from ...datasets.files.registry import find
from ...datasets.tasks import TASKS, Task
from ...errors import ArchitectureError, DataFileError, one_line
from ...progress import Progress
from ..cells import Network, Skeleton, blocks, parse_genotype, sizes
from ..space import SPACES, ListedSpace, Truth
from ..table import Table, converted, table

#: Goes up when the same records give another table, or their networks other parameters.
VERSION = 1
#: Sweeps of stacked cells, by the names of their files.
SWEEPS = (
    *(f"{family}{task}" for family in ("Amoeba", "DARTS", "ENAS", "NASNet", "PNAS") for task in ("", "_in")),
    *(f"{family}_fix-w-d" for family in ("DARTS", "ENAS", "PNAS")),
    *("DARTS_lr-wd", "DARTS_lr-wd_in"),
)

_SOURCE = "nds"
_RUN = re.compile(r" \(run (?:[2-9]|[1-9][0-9]{1,5})\)\Z")
_CELLS = re.compile(r"width=([1-9][0-9]{0,2}),depth=([1-9][0-9]?),(Genotype\(.*[\])]\))")
#: Lists of the files that have two of them, the runs of a good and of a middling network, in the order of the index.
_GROUPS = ("top", "mid")
#: Characters of a file that are read at once, and the most that a record may have; a record is some 100,000 long.
_PIECE = 1 << 20
_LONGEST = 1 << 26
#: Bytes that take more than a few seconds to read.
_MANY = 1 << 26


def space_name(sweep: str) -> str:
    """Return the name of the space of a sweep.

    Example:
        >>> space_name("DARTS_lr-wd_in")
        'nds_darts_lr_wd_in'
    """
    return f"nds_{sweep.lower().replace('-', '_')}"


def without_run(architecture: str) -> str:
    """Return the text of a network without the number of its run."""
    run = _RUN.search(architecture)
    return architecture[: run.start()] if run else architecture


class Nds(ListedSpace):
    """A sweep of Network Design Spaces.

    Accuracies are of the test set, after the last epoch or the best one; the records have errors in percent.

    Args:
        sweep: The name of its file.
        folder: The data folder.
    """

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
        """Return the text of a network as the table has it, without the number of its run.

        Raises:
            ArchitectureError: It is no network of the sweep.
        """

    @abstractmethod
    def describe(self, net: Mapping[str, Any]) -> str:
        """Return the text of a network in the words of its record, any fault in which `spell` finds."""

    def trained_params(self, architecture: str, net: Mapping[str, Any]) -> int:
        """Return the parameters that were trained: those of the network, and of what only its training had."""
        del net
        return self.params(architecture, TASKS[self.task])

    def canonical(self, architecture: str) -> str:
        """Return the text as the table has it."""
        return self.spell(architecture) + architecture[len(without_run(architecture)) :]

    def read_table(self) -> Table:
        """Read networks and accuracies; besides, by record, parameters and flops as it states them, and as built here.

        Raises:
            DataFileError: The file is absent, torn or no list of records, or a record is faulty.
        """
        path = find(_SOURCE, self.folder, f"nds_data/{self.sweep}.json")
        return converted([path], self.name, VERSION, lambda: self._read(path))

    def read_truth(self, task: str, which: str) -> Truth:
        """Return a column of the table; the label says if networks differ from what was trained."""
        truth = super().read_truth(task, which)
        columns = self.table.columns
        if others := int((columns["record/params"] != columns["built/params"]).sum()):
            doubt = f"; {others} of {self.size} records state other parameters than the networks built here have"
            truth = dataclasses.replace(truth, label=truth.label + doubt)
        return truth

    def _read(self, path: Path) -> Table:
        rows: dict[str, list[tuple[str, list[float]]]] = {}
        size = path.stat().st_size
        progress = Progress(f"reading {path.name}, bytes", size) if size > _MANY else None
        try:
            with path.open("rb") as raw, io.TextIOWrapper(raw, "utf-8") as stream:
                for number, (group, record) in enumerate(records(stream)):
                    rows.setdefault(group, []).append(self._row(path, number, record))
                    if progress:
                        progress.update(raw.tell())
        except OSError as error:
            raise DataFileError(f"data file {path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise DataFileError(
                f"data file {path} is torn or not JSON ({one_line(str(error))[:100]}): get it anew"
            ) from None
        finally:
            if progress:
                progress.close()
        if rows and set(rows) not in ({""}, set(_GROUPS)):
            raise DataFileError(
                f"data file {path}: expected a list of records, or lists {' and '.join(_GROUPS)}, "
                f"got {', '.join(sorted(rows))[:80]}"
            )
        names = (f"{self.task}/test-final", f"{self.task}/test-best", "record/params", "record/flops", "built/params")
        return table(path, names, _numbered(row for group in ("", *_GROUPS) for row in rows.get(group, ())))

    def _row(self, path: Path, number: int, record: Any) -> tuple[str, list[float]]:
        try:
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
        except (ArchitectureError, AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise DataFileError(
                f"data file {path}, record {number}: expected a training ({type(error).__name__}: {str(error)[:250]})"
            ) from None


def _numbered(rows: Iterator[tuple[str, list[float]]]) -> Iterator[tuple[str, list[float]]]:
    seen: Counter[str] = Counter()
    for architecture, values in rows:
        seen[architecture] += 1
        run = seen[architecture]
        yield architecture if run == 1 else f"{architecture} (run {run})", values


class NdsCells(Nds):
    """A sweep of networks of stacked cells.

    A text is `width=36,depth=20,Genotype(...)`: channels of the first cells, cells, and the genotype as DARTS prints
    it. Networks are built without the auxiliary head that some trainings had.
    """

    def __init__(self, sweep: str, folder: Path | None = None) -> None:
        super().__init__(sweep, folder)
        self.nodes = 4 if sweep.startswith("DARTS") else 5

    def skeleton(self, architecture: str) -> Skeleton:
        """Read a genotype and the sizes of its network.

        Raises:
            ArchitectureError: The text has another form, or it is no network of the sweep.
        """
        found = _CELLS.fullmatch(without_run(architecture))
        if found is None:
            raise ArchitectureError(f"architecture '{architecture[:100]}': expected width=36,depth=20,Genotype(...)")
        width, depth, genotype = int(found[1]), int(found[2]), parse_genotype(found[3])
        if {len(genotype.normal), len(genotype.reduce)} != {2 * self.nodes}:
            raise ArchitectureError(f"architecture '{architecture[:100]}': expected {self.nodes} nodes a cell")
        if self.task == "imagenet" and width % 2:
            raise ArchitectureError(
                f"architecture '{architecture[:100]}': expected an even width, which its stem halves"
            )
        return Skeleton(genotype, width, depth, "imagenet" if self.task == "imagenet" else "cifar")

    def spell(self, architecture: str) -> str:
        """Return the text with the genotype in its own spelling."""
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
        """Return the parameters with those of the auxiliary head if the record says there was one."""
        auxiliary, task = net["aux"], TASKS[self.task]
        if type(auxiliary) is not bool:
            raise ValueError(f"expected aux to be true or false, got {str(auxiliary)[:40]}")
        return sizes(self.skeleton(architecture), task.num_classes, task.image_size, auxiliary=auxiliary).params

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network, without an auxiliary head, in PyTorch's default initialisation."""
        return Network(self.skeleton(architecture), task.num_classes)

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters, an auxiliary head left out."""
        return sizes(self.skeleton(architecture), task.num_classes, task.image_size).params

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates of one image, and one per class."""
        return sizes(self.skeleton(architecture), task.num_classes, task.image_size).macs

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return the width, the depth, and how many edges of both cells have convolutions."""
        genotype, width, depth, _ = self.skeleton(architecture)
        edges = (*genotype.normal, *genotype.reduce)
        convolutions = sum(bool(blocks(operation, 1, 1)) for operation, _ in edges)
        return {"width": width, "depth": depth, "convolutions": convolutions}


def records(stream: TextIO) -> Iterator[tuple[str, Any]]:
    """Read the records of a list, or of an object of lists, one at a time; yield the name of the list with each.

    Raises:
        ValueError: The text is torn or no such JSON.
        RecursionError: It is nested beyond reason.
    """
    text = _Json(stream)
    if text.take("[{") == "[":
        for record in text.items():
            yield "", record
    else:
        names = set()
        while True:
            name = text.value()
            if not isinstance(name, str) or name in names:
                raise ValueError(f"expected the name of another list, got {str(name)[:40]}")
            names.add(name)
            text.take(":")
            text.take("[")
            for record in text.items():
                yield name, record
            if text.take(",}") == "}":
                break
    text.take("")


class _Json:
    """A text of JSON of which a piece is in memory."""

    decoder = json.JSONDecoder()
    inked = re.compile(r"[^ \t\n\r]")

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.text = ""
        self.at = 0

    def take(self, expected: str) -> str:
        """Pass one of the expected characters, or the end of the text where none is expected."""
        found = self._peek()
        if found not in list(expected or [""]):
            raise ValueError(f"expected {' or '.join(expected) or 'its end'}, got {found or 'its end'}")
        self.at += 1
        return found

    def items(self) -> Iterator[Any]:
        """Yield the values of a list that has been opened, up to its end."""
        if self._peek() == "]":
            self.at += 1
            return
        while True:
            yield self.value()
            if self.take(",]") == "]":
                return

    def value(self) -> Any:
        """Read a value, and as much more of the text as it takes."""
        self._peek()
        while True:
            try:
                value, self.at = self.decoder.raw_decode(self.text, self.at)
            except ValueError:
                rest = self.text[self.at :]
                more = self.stream.read(
                    max(_PIECE, len(rest))
                )  # twice as much each time, or reading would be quadratic
                if not more or len(rest) > _LONGEST:
                    raise
                self.text, self.at = rest + more, 0
            else:
                return value

    def _peek(self) -> str:
        """Return the next character that is no white space; none at the end of the text."""
        while (found := self.inked.search(self.text, self.at)) is None:
            self.text, self.at = self.stream.read(_PIECE), 0
            if not self.text:
                return ""
        self.at = found.start()
        return found[0]


for _sweep in SWEEPS:
    SPACES.add(space_name(_sweep), functools.partial(NdsCells, _sweep))
