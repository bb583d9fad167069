"""Listed spaces of DARTS cells: one with trained networks, and NAS-Bench-301, whose accuracies a surrogate predicts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from ..datasets.files.registry import find
from ..datasets.tasks import Task
from ..errors import bad_architecture
from .cells import DARTS, NASLIB, Genotype, Network, Skeleton, Style, parse_genotype, sizes
from .space import SPACES, ListedSpace, Sizes
from .table import Table, number, read_csv, table

NODES = 4
#: Operations of the search space; the list of trained networks also has `none`.
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
    """Networks of two DARTS cells, all of one width and depth. A text is the genotype as DARTS prints it."""

    memory_format = torch.channels_last  # convolutions on CPUs are then 1.3 to 1.8 times faster
    style: Style
    width: int
    depth = 8
    operations: tuple[str, ...]
    #: Names of the columns with the genotype and the accuracy, and whether the file begins with them.
    columns: tuple[str, str]
    has_header = True
    #: Whether a network may occur twice in the file. Its first row counts.
    repeated = False

    def read_table(self) -> Table:
        """Read genotypes and accuracies."""
        path = find(self.name.replace("_", "-"), self.folder)
        genotype, accuracy = self.columns
        rows = read_csv(
            path,
            self.columns,
            lambda row: (self.canonical(row[genotype]), [number(row[accuracy])]),
            header=None if self.has_header else self.columns,
        )
        return table(path, [f"cifar10/{which}" for which in self.truths["cifar10"]], rows, repeated=self.repeated)

    def canonical(self, architecture: str) -> str:
        """Return the genotype in the spelling of the table."""
        return str(self.genotype(architecture))

    def genotype(self, architecture: str) -> Genotype:
        """Read a genotype of the space. It has four nodes, all concatenated, and operations of the space.

        Raises:
            ArchitectureError: The text is not such a genotype.
        """
        genotype = parse_genotype(architecture)
        every = tuple(range(2, 2 + NODES))
        found = {operation for operation, _ in (*genotype.normal, *genotype.reduce)}
        if {genotype.normal_concat, genotype.reduce_concat} != {every} or found - set(self.operations):
            raise bad_architecture(
                architecture,
                f"expected {NODES} nodes a cell, all concatenated, and operations of {', '.join(self.operations)}",
            )
        return genotype

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network, without an auxiliary head, in PyTorch's default initialisation."""
        return Network(Skeleton(self.genotype(architecture), self.width, self.depth), task.num_classes, self.style)

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network."""
        skeleton = Skeleton(self.genotype(architecture), self.width, self.depth)
        return sizes(skeleton, task.num_classes, task.image_size, self.style)


class DartsTrained(DartsCells):
    """A thousand networks with trained accuracies.

    The list does not state which networks were trained. The highest accuracy is 86.6 %, so they were small or trained
    for a short time. This space builds the network that DARTS searches with: 16 channels, eight cells. The authors of
    the list score a single cell.
    """

    name = "darts_trained"
    paper = "Peng et al., SWAP-NAS, ICLR 2024; genotypes of Liu et al., DARTS, ICLR 2019"
    truths: Mapping[str, Mapping[str, str]] = {
        "cifar10": {"valid-200": "validation accuracy of a network of unstated size (DARTS_archs_CIFAR10.csv)"}
    }
    style = DARTS
    width = 16
    operations = ("none", *OPERATIONS)
    columns = ("genotype", "accuracy")
    has_header = False


class NasBench301(DartsCells):
    """NAS-Bench-301 as in NASLib: 32 channels, eight cells, batch norms of operations without parameters.

    The accuracies are predictions of a surrogate; these networks were not trained.
    """

    name = "nb301"
    paper = "Zela et al., NAS-Bench-301, ICLR 2022; networks of NASLib"
    truths: Mapping[str, Mapping[str, str]] = {
        "cifar10": {"surrogate-valid": "validation accuracy predicted by the surrogate XGB v1.0 (NASLib's list)"}
    }
    style = NASLIB
    width = 32
    operations = OPERATIONS
    columns = ("genotype", "val_accuracy")
    repeated = True  # a few networks are in both of NASLib's lists


SPACES.add(DartsTrained.name, DartsTrained)
SPACES.add(NasBench301.name, NasBench301)
