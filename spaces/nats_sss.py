"""The size space of NATS-Bench: 32,768 networks with the same cell that differ in the widths of their five stages."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..datasets.tasks import Task
from ..errors import bad_architecture
from ..proxies.operations.skip import Skip
from .nats import TASKS, Accuracy, Release
from .nb201.network import EDGES, Cell, ReLUConvBN, ResNetBasicblock, Skeleton, parse
from .space import SPACES, Sizes, Space, Truth

#: Possible widths of a stage, in the order of the index.
WIDTHS = (8, 16, 24, 32, 40, 48, 56, 64)
#: The cell that all networks have.
CELL: Cell = parse("|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|")

_STAGES = 5
_ACCURACIES = {f"{kind}-{epochs}": Accuracy(kind, epochs) for epochs in (90, 12, 1) for kind in ("test", "valid")}


def widths(architecture: str) -> tuple[int, ...]:
    """Read `c0:c1:c2:c3:c4`, the widths of the five stages.

    Raises:
        ArchitectureError: The text does not consist of five widths of the space.

    Example:
        >>> widths("8:16:24:32:64")
        (8, 16, 24, 32, 64)
    """
    known = {str(width): width for width in WIDTHS}
    texts = architecture.split(":")
    if len(texts) != _STAGES or not known.keys() >= set(texts):
        raise bad_architecture(architecture, f"expected 5 widths as in 8:16:24:32:64, each one of {', '.join(known)}")
    return tuple(known[text] for text in texts)


class FactorizedReduce(nn.Module):
    """The skip connection between unequal widths: a 1 x 1 convolution without bias, then an affine batch norm.

    The class has its name in the benchmark's code, where it reduces the resolution at a stride of two.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H, W)`."""
        output: Tensor = self.bn(self.conv(x))
        return output


class InferCell(nn.Module):
    """The cell. A node is the sum of its edges. Edges from node 0 change the width, the other edges keep it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        # Proxies read the longest list of modules in a network, so this stays a list and no dictionary.
        self.layers = nn.ModuleList(
            _operation(operation, inputs if source == 0 else outputs, outputs)
            for operation, (source, _) in zip(CELL, EDGES, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map `(N, inputs, H, W)` to `(N, outputs, H, W)`."""
        nodes = [x]
        for node in (1, 2, 3):
            terms = [self.layers[i](nodes[source]) for i, (source, target) in enumerate(EDGES) if target == node]
            nodes.append(functools.reduce(torch.add, terms))
        return nodes[-1]


def _operation(name: str, inputs: int, outputs: int) -> nn.Module:
    if name == "nor_conv_3x3":
        return ReLUConvBN(inputs, outputs, 3)
    return Skip() if inputs == outputs else FactorizedReduce(inputs, outputs)


class Network(Skeleton):
    """A whole network: cell, reduction, cell, reduction, cell, of the five widths. The stem has the first width too."""

    def __init__(self, widths: tuple[int, ...], num_classes: int) -> None:
        cells = (
            ResNetBasicblock(inputs, outputs) if _reduces(stage) else InferCell(inputs, outputs)
            for stage, (inputs, outputs) in enumerate(_pairs(widths))
        )
        super().__init__(widths[0], cells, widths[-1], num_classes)


def _pairs(widths: tuple[int, ...]) -> zip[tuple[int, int]]:
    return zip((widths[0], *widths), widths, strict=False)


def _reduces(stage: int) -> bool:
    return stage % 2 == 1


def _weights(stage: int, inputs: int, outputs: int) -> tuple[int, int]:
    """Return the number of weights in a stage's convolutions, and the number of its batch norms."""
    if _reduces(stage):
        return 9 * inputs * outputs + 9 * outputs**2 + inputs * outputs, 2
    # Two of the five 3 x 3 convolutions read node 0, and so does the skip connection.
    convolutions = 2 * 9 * inputs * outputs + 3 * 9 * outputs**2
    return (convolutions, 5) if inputs == outputs else (convolutions + inputs * outputs, 6)


class NatsBenchSize(Space):
    """The size space of NATS-Bench. The digits of an index in base eight stand for the five widths."""

    memory_format = torch.channels_last  # convolutions on CPUs are then 1.3 to 1.8 times faster
    name = "nats_sss"
    is_exhaustive = True
    size = len(WIDTHS) ** _STAGES
    paper = "Dong et al., NATS-Bench, TPAMI 2021"
    truths: Mapping[str, Mapping[str, str]] = {
        task: {name: accuracy.label for name, accuracy in _ACCURACIES.items()} for task in TASKS
    }

    def architecture(self, index: int) -> str:
        """Return the text of an official index, 0 to 32,767."""
        return ":".join(str(WIDTHS[int(digit)]) for digit in f"{self.check_index(index):0{_STAGES}o}")

    def index(self, architecture: str) -> int:
        """Return the official index of a text."""
        return int("".join(str(WIDTHS.index(width)) for width in widths(architecture)), len(WIDTHS))

    def mutate(self, architecture: str, generator: random.Random) -> str:
        """Draw one of the 35 networks that have another width in one stage."""
        changed = list(widths(architecture))
        stage = generator.randrange(_STAGES)
        changed[stage] = generator.choice([width for width in WIDTHS if width != changed[stage]])
        return ":".join(map(str, changed))

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        return Network(widths(architecture), task.num_classes)

    def read_truth(self, task: str, which: str) -> Truth:
        """Read accuracies in the order of the index; NaN if the folder has no record of a network."""
        return Release("nats-sss", _ACCURACIES, self.index, self.size).truth(task, which, self.folder)

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network, which equal the `params` and the `flop` of its record.

        With ten classes, the networks have 11,714 to 713,674 parameters. The image size must be a multiple of four.
        """
        channels = widths(architecture)
        side = task.image_size
        classifier = (channels[-1] + 1) * task.num_classes
        params = (27 + 2) * channels[0] + 2 * channels[-1] + classifier
        macs = 27 * channels[0] * side**2 + classifier
        for stage, (inputs, outputs) in enumerate(_pairs(channels)):
            side = side // 2 if _reduces(stage) else side
            weights, norms = _weights(stage, inputs, outputs)
            params += weights + 2 * outputs * norms
            macs += weights * side**2
        return Sizes(params, macs)


SPACES.add(NatsBenchSize.name, NatsBenchSize)
