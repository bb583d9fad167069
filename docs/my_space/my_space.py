"""A space of your own in one file: 27 plain networks of three layers that differ in their widths.

    zcbench run --include docs/my_space/my_space.py --space my_space --dataset cifar10-samples

Its accuracies are not real: they show the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import nn
from zcbench.datasets import Task
from zcbench.errors import ArchitectureError
from zcbench.spaces import SPACES, Space, Truth
from zcbench.spaces.table import by_index, number, read_csv

WIDTHS = ("4", "8", "16")


class MySpace(Space):
    """Widths as text (`4-16-8`); an index is their digits as a number of base three."""

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
            raise ArchitectureError(f"architecture '{architecture[:100]}': expected three of {', '.join(WIDTHS)}")
        return sum(base * WIDTHS.index(width) for base, width in zip((9, 3, 1), widths, strict=True))

    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network; parameters and operations are counted from it, as nothing else is said."""
        self.index(architecture)
        layers: list[nn.Module] = []
        channels = task.channels
        for width in map(int, architecture.split("-")):
            layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, task.num_classes))

    def read_truth(self, task: str, which: str) -> Truth:
        """Read the table that lies beside this file."""
        path = Path(__file__).with_name("accuracies.csv")
        rows = read_csv(path, ["widths", "accuracy"], lambda row: (self.index(row["widths"]), number(row["accuracy"])))
        return Truth(f"{task}/{which}", self.truths[task][which], by_index(path, rows, self.size))


SPACES.add(MySpace.name, MySpace)
