"""A space of your own in one file: 27 plain networks of three layers that differ in their widths.

    zcbench run --include docs/my_space/my_space.py --space my_space --dataset cifar10-samples

Its accuracies are invented; they only show the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import nn
from zcbench.datasets import Task
from zcbench.errors import bad_architecture
from zcbench.spaces import SPACES, Space, Truth
from zcbench.spaces.table import read_column

WIDTHS = ("4", "8", "16")


class MySpace(Space):
    """A space whose texts are widths (`4-16-8`). The digits of an index in base three stand for the widths."""

    name = "my_space"
    paper = "yours"
    size = len(WIDTHS) ** 3
    truths: Mapping[str, Mapping[str, str]] = {"cifar10": {"test-1": "test accuracy after one epoch (accuracies.csv)"}}

    def architecture(self, index: int) -> str:
        """Return the widths of an index."""
        self.check_index(index)
        return "-".join(WIDTHS[index // base % 3] for base in (9, 3, 1))

    def index(self, architecture: str) -> int:
        """Return the index of three widths."""
        widths = architecture.split("-")
        if len(widths) != 3 or not set(widths) <= set(WIDTHS):
            raise bad_architecture(architecture, f"expected three widths of {', '.join(WIDTHS)}")
        return sum(base * WIDTHS.index(width) for base, width in zip((9, 3, 1), widths, strict=True))

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network. Its sizes are counted on it, because this space does not override `sizes_of`."""
        self.index(architecture)
        layers: list[nn.Module] = []
        channels = task.channels
        for width in map(int, architecture.split("-")):
            layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, task.num_classes))

    def read_truth(self, task: str, which: str) -> Truth:
        """Read the table beside this file."""
        path = Path(__file__).with_name("accuracies.csv")
        values = read_column(path, "widths", "accuracy", self.index, self.size)
        return Truth(f"{task}/{which}", self.truths[task][which], values)


SPACES.add(MySpace.name, MySpace)
