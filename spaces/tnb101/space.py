"""TransNAS-Bench-101: 4,096 cells in one skeleton and 3,256 skeletons of one block, trained on seven tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn

from ...datasets.files.registry import find
from ...datasets.tasks import Task
from ..nb201.network import EDGES
from ..space import SPACES, Sizes, Space, Truth
from ..table import PERCENT, read_column
from .network import OPERATIONS, Code, MapNetwork, Network, macros, network_sizes, parse_macro, parse_micro

_TOP1 = "validation top-1 accuracy"
_SSIM = "structural similarity (SSIM) on the validation set, 1 at best, no percentage"
#: For each task, the measured quantity and its bounds.
_QUANTITIES = {
    "class_scene": (_TOP1, PERCENT),
    "class_object": (_TOP1, PERCENT),
    "room_layout": ("negative loss on the validation set, 0 at best, no percentage", (-math.inf, 0.0)),
    "jigsaw": (_TOP1, PERCENT),
    "segmentsemantic": ("validation accuracy of pixels", PERCENT),
    "normal": (_SSIM, (-1.0, 1.0)),
    "autoencoder": (_SSIM, (-1.0, 1.0)),
}


def _truths(file: str) -> dict[str, dict[str, str]]:
    return {
        task: {"valid-final": f"{quantity}, last epoch of one training ({file})"}
        for task, (quantity, _) in _QUANTITIES.items()
    }


class TransNasBench(Space):
    """The base class of both spaces. A network for another task, such as CIFAR-10, has the head for its outputs."""

    memory_format = torch.channels_last  # convolutions on CPUs are then 1.3 to 1.8 times faster
    paper = "Duan et al., TransNAS-Bench-101, CVPR 2021"
    is_exhaustive = True
    #: The reader of the space's texts.
    parse: Callable[[str], Code]

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network."""
        code = self.parse(architecture)
        return MapNetwork(code, task) if task.outputs == "maps" else Network(code, task)

    def read_truth(self, task: str, which: str) -> Truth:
        """Read the final validation results in the order of the index."""
        path = find(self.name.replace("_", "-"), self.folder)
        values = read_column(path, "arch_str", f"{task}_val", self.index, self.size, _QUANTITIES[task][1])
        return Truth(f"{task}/{which}", self.truths[task][which], values)

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network. A network with a decoder is built to count them."""
        code = self.parse(architecture)
        return super().sizes_of(architecture, task) if task.outputs == "maps" else network_sizes(code, task)


class TransNasMicro(TransNasBench):
    """The cell space: five modules, 41414. An index is the six digits of the cell, read as a number of base four."""

    name = "tnb101_micro"
    size = len(OPERATIONS) ** len(EDGES)
    parse = staticmethod(parse_micro)
    truths: Mapping[str, Mapping[str, str]] = _truths("tnb101_micro.csv")

    def architecture(self, index: int) -> str:
        """Return the text of an index, 0 to 4,095."""
        digits = np.base_repr(self.check_index(index), len(OPERATIONS)).zfill(len(EDGES))
        return f"64-41414-{digits[0]}_{digits[1:3]}_{digits[3:]}"

    def index(self, architecture: str) -> int:
        """Return the index of a text."""
        self.parse(architecture)
        return int(architecture.rpartition("-")[2].replace("_", ""), len(OPERATIONS))

    def mutate(self, architecture: str, generator: random.Random) -> str:
        """Draw one of the 18 cells that have another operation on one edge."""
        step = len(OPERATIONS) ** generator.randrange(len(EDGES))
        index = self.index(architecture)
        digit = index // step % len(OPERATIONS)
        other = generator.choice([each for each in range(len(OPERATIONS)) if each != digit])
        return self.architecture(index + (other - digit) * step)


class TransNasMacro(TransNasBench):
    """The skeleton space: four to six modules of residual blocks. Indices are by length, then by digits."""

    name = "tnb101_macro"
    size = 3256
    parse = staticmethod(parse_macro)
    truths: Mapping[str, Mapping[str, str]] = _truths("tnb101_macro.csv")

    def architecture(self, index: int) -> str:
        """Return the text of an index, 0 to 3,255."""
        return f"64-{tuple(macros())[self.check_index(index)]}-basic"

    def index(self, architecture: str) -> int:
        """Return the index of a text."""
        return macros()[self.parse(architecture).macro]


SPACES.add(TransNasMicro.name, TransNasMicro)
SPACES.add(TransNasMacro.name, TransNasMacro)
