"""NAS-Bench-201 as a space: texts, indices, sizes and accuracies of its networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import nn

from ...datasets.tasks import Task
from ..space import SPACES, Space, Truth
from .accuracies import TRUTHS, read_truth
from .network import EDGES, OPERATIONS, Cell, Network, cells, has_unreachable, indices, isomorphism_classes, parse, text


class NasBench201(Space):
    """NAS-Bench-201 with the benchmark's own networks: C = 16, five cells per stage."""

    name = "nb201"
    size = len(OPERATIONS) ** len(EDGES)
    paper = "Dong & Yang, NAS-Bench-201, ICLR 2020; Dong et al., NATS-Bench, TPAMI 2021"
    truths = TRUTHS

    def architecture(self, index: int) -> str:
        """Return the text of an official index, 0 to 15,624."""
        return text(cells()[self.check_index(index)])

    def index(self, architecture: str) -> int:
        """Return the official index of a text."""
        return indices()[parse(architecture)]

    def index_of(self, operations: Iterable[str]) -> int:
        """Return the index of a cell's operations, in the order of the text; KeyError if it is no cell."""
        return indices()[tuple(operations)]

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        return Network(parse(architecture), task.num_classes)

    def read_truth(self, task: str, which: str) -> Truth:
        """Read accuracies by official index."""
        return read_truth(task, which, self.folder, self)

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return the convolutions of a cell, its isomorphism class, and whether an operation does not reach the output.

        The class is the lowest index in it.
        """
        cell = parse(architecture)
        return {
            "convolutions": sum(_convolutions(cell)),
            "isomorphism_class": isomorphism_classes()[indices()[cell]],
            "unreachable": has_unreachable(cell),
        }

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters: 73,306 + 28,000 per 1x1 and 243,040 per 3x3 convolution, for ten classes."""
        ones, threes = _convolutions(parse(architecture))
        return 73_306 + (task.num_classes - 10) * 65 + 28_000 * ones + 243_040 * threes

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates: 7.78305 + 3.93216 and 35.38944 million per convolution, for CIFAR-10."""
        ones, threes = _convolutions(parse(architecture))
        convolutions = 7_782_400 + 3_932_160 * ones + 35_389_440 * threes
        return convolutions * task.image_size**2 // 32**2 + 65 * task.num_classes


def _convolutions(cell: Cell) -> tuple[int, int]:
    return cell.count("nor_conv_1x1"), cell.count("nor_conv_3x3")


SPACES.add(NasBench201.name, NasBench201)
