"""Spaces of DARTS cells of which the user has a list: one really trained, one whose accuracies a surrogate predicts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from torch import nn

from ..datasets.files.registry import find
from ..datasets.tasks import Task
from ..errors import ArchitectureError
from .cells import DARTS, NASLIB, Genotype, Network, Skeleton, Style, parse_genotype, sizes
from .space import SPACES, ListedSpace
from .table import Table, number, read_csv, table

NODES = 4
#: Operations of the search space; a trained list may have `none` besides.
OPERATIONS = (
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
)


class DartsCells(ListedSpace):
    """Networks of two DARTS cells in one skeleton; a text is the genotype as DARTS prints it."""

    style: Style
    width: int
    depth: int
    operations: tuple[str, ...]

    def canonical(self, architecture: str) -> str:
        """Return the genotype in the spelling of the table."""
        return str(self.genotype(architecture))

    def genotype(self, architecture: str) -> Genotype:
        """Read a genotype of the space: four nodes, all of them concatenated, and known operations.

        Raises:
            ArchitectureError: The text is no such genotype.
        """
        genotype = parse_genotype(architecture)
        every = tuple(range(2, 2 + NODES))
        found = {operation for operation, _ in (*genotype.normal, *genotype.reduce)}
        if {genotype.normal_concat, genotype.reduce_concat} != {every} or found - set(self.operations):
            raise ArchitectureError(
                f"architecture '{architecture[:100]}': expected {NODES} nodes a cell, all concatenated, and operations "
                f"of {', '.join(self.operations)}"
            )
        return genotype

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network, without an auxiliary head, in PyTorch's default initialisation."""
        return Network(self._skeleton(architecture), task.num_classes, self.style)

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters."""
        return sizes(self._skeleton(architecture), task.num_classes, task.image_size, self.style).params

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates of one image, and one per class."""
        return sizes(self._skeleton(architecture), task.num_classes, task.image_size, self.style).macs

    @abstractmethod
    def read_table(self) -> Table:
        """Read genotypes and accuracies."""

    def _skeleton(self, architecture: str) -> Skeleton:
        return Skeleton(self.genotype(architecture), self.width, self.depth)


class DartsTrained(DartsCells):
    """A thousand networks that were really trained.

    What was trained is not stated; their accuracies, 86.6 % at best, are those of small or shortly trained networks.
    Built here is the network that DARTS searches with: 16 channels, eight cells. The authors score a single cell.
    """

    name = "darts_trained"
    paper = "Peng et al., SWAP-NAS, ICLR 2024; genotypes of Liu et al., DARTS, ICLR 2019"
    truths: Mapping[str, Mapping[str, str]] = {
        "cifar10": {"valid-200": "validation accuracy of a network of unstated size (DARTS_archs_CIFAR10.csv)"}
    }
    style = DARTS
    width = 16
    depth = 8
    operations = ("none", *OPERATIONS)

    def read_table(self) -> Table:
        """Read genotypes and accuracies from a table without header."""
        path = find("darts-trained", self.folder)
        columns = ("genotype", "accuracy")
        rows = read_csv(
            path, columns, lambda row: (self.canonical(row["genotype"]), [number(row["accuracy"])]), header=columns
        )
        return table(path, ["cifar10/valid-200"], rows)


class NasBench301(DartsCells):
    """NAS-Bench-301 in NASLib's form: 32 channels, eight cells, norms of operations without parameters.

    Accuracies are predictions of a surrogate, not trainings.
    """

    name = "nb301"
    paper = "Zela et al., NAS-Bench-301, ICLR 2022; networks of NASLib"
    truths: Mapping[str, Mapping[str, str]] = {
        "cifar10": {"surrogate-valid": "validation accuracy predicted by the surrogate XGB v1.0 (NASLib's list)"}
    }
    style = NASLIB
    width = 32
    depth = 8
    operations = OPERATIONS

    def read_table(self) -> Table:
        """Read genotypes and accuracies; of the few that stand in both of NASLib's lists, the first counts."""
        path = find("nb301", self.folder)
        rows = read_csv(
            path,
            ("genotype", "val_accuracy"),
            lambda row: (self.canonical(row["genotype"]), [number(row["val_accuracy"])]),
        )
        return table(path, ["cifar10/surrogate-valid"], rows, repeated=True)


SPACES.add(DartsTrained.name, DartsTrained)
SPACES.add(NasBench301.name, NasBench301)
