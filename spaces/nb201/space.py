"""NAS-Bench-201 as a space: texts, indices, sizes and accuracies of its networks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...datasets.tasks import Task
from ..space import SPACES, Sizes, Space, Truth
from .accuracies import TRUTHS, read_seconds, read_truth
from .network import (
    OPERATIONS,
    SIZE,
    Cell,
    Network,
    cells,
    has_unreachable,
    index,
    indices,
    isomorphism_classes,
    parse,
    text,
)


class NasBench201(Space):
    """NAS-Bench-201 with the benchmark's own networks: 16 channels, five cells per stage."""

    memory_format = torch.channels_last  # convolutions on CPUs are then 1.3 to 1.8 times faster
    name = "nb201"
    is_exhaustive = True
    size = SIZE
    paper = "Dong & Yang, NAS-Bench-201, ICLR 2020; Dong et al., NATS-Bench, TPAMI 2021"
    truths = TRUTHS

    def architecture(self, index: int) -> str:
        """Return the text of an official index, 0 to 15,624."""
        return text(cells()[self.check_index(index)])

    def index(self, architecture: str) -> int:
        """Return the official index of a text."""
        return index(architecture)

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        return Network(parse(architecture), task.num_classes)

    def read_truth(self, task: str, which: str) -> Truth:
        """Read accuracies in the order of the official index."""
        return read_truth(task, which, self.folder)

    def training_seconds(self, task: str, which: str) -> NDArray[np.float64] | None:
        """Return the seconds of training in the order of the official index; None where no file says them."""
        return read_seconds(task, which, self.folder)

    def mutate(self, architecture: str, generator: random.Random) -> str:
        """Draw one of the 24 cells that have another operation on one edge."""
        cell = list(parse(architecture))
        edge = generator.randrange(len(cell))
        cell[edge] = generator.choice([operation for operation in OPERATIONS if operation != cell[edge]])
        return text(cast("Cell", tuple(cell)))

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return the number of convolutions of a cell, its class, and whether it has an unreachable operation.

        The class is the index of its representative. An operation is unreachable if it lies on no path from input to
        output.
        """
        cell = parse(architecture)
        return {
            "convolutions": sum(_convolutions(cell)),
            "isomorphism_class": isomorphism_classes()[indices()[cell]],
            "unreachable": has_unreachable(cell),
        }

    def representative(self, index: int) -> int:
        """Return the first index with the same function; there are 5,044. An unreachable operation is avoided."""
        return isomorphism_classes()[self.check_index(index)]

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network.

        With ten classes, it has 73,306 parameters, 28,000 more per 1 x 1 and 243,040 more per 3 x 3 convolution. On
        CIFAR-10, it has 7.78305 million multiply-accumulates, and 3.93216 and 35.38944 million more per convolution.
        """
        ones, threes = _convolutions(parse(architecture))
        params = 73_306 + (task.num_classes - 10) * 65 + 28_000 * ones + 243_040 * threes
        macs = 7_782_400 + 3_932_160 * ones + 35_389_440 * threes
        return Sizes(params, macs * task.image_size**2 // 32**2 + 65 * task.num_classes)


def _convolutions(cell: Cell) -> tuple[int, int]:
    return cell.count("nor_conv_1x1"), cell.count("nor_conv_3x3")


SPACES.add(NasBench201.name, NasBench201)
