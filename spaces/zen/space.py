"""The space of Zen-NAS, as networks that are trained and as networks that are scored."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from ...datasets.tasks import Task
from ...errors import UnknownNameError, bad_architecture
from .. import convolutions
from ..convolutions import output_side
from ..space import SPACES, Sizes, Space, Truth
from .blocks import layers, parse
from .budget import Budget, budget
from .mutation import mutate
from .network import Network

#: Networks with a name, in the order of the index: those that the authors' searches start from, and those they found.
NAMED = {
    "start-cifar": (
        "SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,1,8,1)SuperResK3K3(16,32,2,16,1)SuperResK3K3(32,64,2,32,1)"
        "SuperResK3K3(64,64,2,32,1)SuperConvK1BNRELU(64,128,1,1)"
    ),
    "start-imagenet": (
        "SuperConvK3BNRELU(3,32,2,1)SuperResK3K3(32,64,2,32,1)SuperResK3K3(64,128,2,64,1)SuperResK3K3(128,256,2,128,1)"
        "SuperResK3K3(256,512,2,256,1)SuperConvK1BNRELU(512,512,1,1)"
    ),
    "zennet-0.5m": (
        "SuperConvK3BNRELU(3,64,1,1)SuperResK1K5K1(64,168,1,16,3)SuperResK1K3K1(168,80,2,32,4)"
        "SuperResK1K5K1(80,112,2,16,3)SuperResK1K5K1(112,144,1,24,3)SuperResK1K3K1(144,32,2,40,1)"
        "SuperConvK1BNRELU(32,512,1,1)"
    ),
    "zennet-1m": (
        "SuperConvK3BNRELU(3,88,1,1)SuperResK1K7K1(88,120,1,16,1)SuperResK1K7K1(120,192,2,16,3)"
        "SuperResK1K5K1(192,224,1,24,4)SuperResK1K5K1(224,96,2,24,2)SuperResK1K3K1(96,168,2,40,3)"
        "SuperResK1K3K1(168,112,1,48,3)SuperConvK1BNRELU(112,512,1,1)"
    ),
    "zennet-2m": (
        "SuperConvK3BNRELU(3,32,1,1)SuperResK1K5K1(32,120,1,40,1)SuperResK1K5K1(120,176,2,32,3)"
        "SuperResK1K7K1(176,272,1,24,3)SuperResK1K3K1(272,176,1,56,3)SuperResK1K3K1(176,176,1,64,4)"
        "SuperResK1K5K1(176,216,2,40,2)SuperResK1K3K1(216,72,2,56,2)SuperConvK1BNRELU(72,512,1,1)"
    ),
}


class Zen(Space):
    """The residual search space of Zen-NAS, similar to RegNet: chains of super blocks of free kinds, widths and depths.

    A text is the chain as the authors' code writes it: `SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,1,8,1)`. The
    numbers are the channels before and after, the stride, the channels of bottlenecks, and the sub-layers. The space
    has no end, so its indices are a list of five networks that the authors' code names. All others can be built from
    their texts. There are no accuracies of many of them.

    Args:
        folder: Data folder, which is not read.
        shortcuts: Whether networks have their shortcuts. The authors' searches score networks without them, and train
            them with them.
    """

    memory_format = torch.channels_last  # convolutions on CPUs are then 1.3 to 1.8 times faster
    paper = "Lin et al., Zen-NAS, ICCV 2021"
    truths: Mapping[str, Mapping[str, str]] = {}
    size = len(NAMED)
    is_open = True

    def __init__(self, folder: Path | None = None, *, shortcuts: bool = True) -> None:
        super().__init__(folder)
        self.shortcuts = shortcuts
        self.name, self.trained_in = ("zen", "") if shortcuts else ("zen_plain", "zen")

    def architecture(self, index: int) -> str:
        """Return the text of a network that has a name."""
        return list(NAMED.values())[self.check_index(index)]

    def index(self, architecture: str) -> int:
        """Return the index of a text."""
        parse(architecture)
        known = list(NAMED.values())
        if architecture not in known:
            raise bad_architecture(architecture, f"the network is valid, but none of the {self.size} with an index")
        return known.index(architecture)

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network, in PyTorch's default initialisation. The authors' code trains from another one."""
        return Network(parse(architecture), task.num_classes, shortcuts=self.shortcuts)

    def read_truth(self, task: str, which: str) -> Truth:
        """Refuse to read accuracies, because there are none; `truth` refuses before."""
        raise UnknownNameError(f"{self.name} has no accuracies, got {task}/{which}")

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network."""
        blocks = parse(architecture)
        side, described, biases = task.image_size, [], [0, 0]
        for unit in (unit for block in blocks for unit in block.units()):
            before = side
            for convolution in unit.convolutions:
                described.append(convolutions.Block([convolution], side))
                side = output_side(side, convolution.stride[0])
            if unit.shortcut == "projection" and self.shortcuts:
                described.append(convolutions.Block([unit.projection], before))
                biases[0] += unit.projection.outputs
                biases[1] += unit.projection.outputs * side**2
        counted = convolutions.sizes(described, blocks[-1].outputs, task.num_classes)
        return Sizes(counted.params + biases[0], counted.macs + biases[1])

    def limited_sizes(self, architecture: str, task: Task) -> Mapping[str, float]:
        """Return parameters and multiply-accumulates with shortcuts, both as the authors count them, and layers."""
        trained = self if self.shortcuts else Zen(self.folder)
        counted = self.budget(architecture, task)
        sizes = trained.sizes_of(architecture, task)
        return {
            **sizes._asdict(),
            "budget_params": counted.params,
            "budget_macs": counted.macs,
            "layers": layers(parse(architecture)),
        }

    def draw(self, generator: random.Random) -> str:
        """Draw a network: the start after one to eight mutations. Networks far from the start are not drawn."""
        architecture = self.start
        for _ in range(generator.randint(1, 8)):
            architecture = mutate(generator, architecture)
        return architecture

    def mutate(self, architecture: str, generator: random.Random) -> str:
        """Draw a network with another super block at one place."""
        return mutate(generator, architecture)

    def mutate_two_places(self, architecture: str, generator: random.Random) -> str:
        """Draw a network with other super blocks at two places; a place that is drawn twice changes once."""
        return mutate(generator, architecture, places=2)

    def budget(self, architecture: str, task: Task) -> Budget:
        """Return the sizes that the authors' code holds against its limits; always those with shortcuts."""
        return budget(parse(architecture), task.image_size, task.num_classes)

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return the number of layers, as the authors' code limits it, and the number of super blocks."""
        blocks = parse(architecture)
        return {"layers": layers(blocks), "blocks": len(blocks)}


SPACES.add("zen", Zen)
SPACES.add("zen_plain", functools.partial(Zen, shortcuts=False))
