"""Spaces of small networks for quick searches; the accuracies follow the number of weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from torch import nn
from zcbench.datasets.tasks import Task
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.spaces import SPACES, Space
from zcbench.spaces.space import Truth


class Small(Space):
    """A space of ReLU-Conv-BatchNorm networks; the index determines depth and width."""

    paper = ""
    truths: Mapping[str, Mapping[str, str]] = {"cifar10": {"made": "made up", "flat": "the same for all", "few": "two"}}
    size = 40
    name = "small"

    def architecture(self, index: int) -> str:
        return f"{self.name} {self.check_index(index)}"

    def index(self, architecture: str) -> int:
        return int(architecture.split()[1])

    def convolutions(self, index: int) -> list[tuple[int, int, int]]:
        """Return input channels, output channels and kernel size of every convolution."""
        width, kernel = 2 + index // 8, 1 + 2 * (index // 4 % 2)
        return [(4, width, kernel), *[(width, width, kernel)] * (index % 4)]

    def body(self, index: int) -> list[nn.Module]:
        return [
            layer
            for before, after, kernel in self.convolutions(index)
            for layer in (nn.ReLU(), nn.Conv2d(before, after, kernel, padding=kernel // 2), nn.BatchNorm2d(after))
        ]

    def network(self, architecture: str, task: Task) -> nn.Module:
        index = self.index(architecture)
        stem = [nn.Conv2d(3, 4, 4, stride=4), nn.BatchNorm2d(4)]
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 + index // 8, task.num_classes)]
        return nn.Sequential(*stem, *self.body(index), *head)

    def read_truth(self, task: str, which: str) -> Truth:
        draw = np.random.RandomState(0)
        weights = [sum(a * b * k**2 for a, b, k in self.convolutions(i)) for i in range(self.size)]
        values = np.log(weights) + 0.3 * draw.normal(size=self.size)
        if which == "flat":
            values[:] = 90.0
        if which == "few":
            values[:-2] = np.nan
        return Truth(f"{task}/{which}", self.truths[task][which], values)


class Faulty(Small):
    """A space in which every third network cannot be built."""

    name = "faulty"

    def network(self, architecture: str, task: Task) -> nn.Module:
        if self.index(architecture) % 3 == 0:
            raise RuntimeError("no such\nkernel")
        return super().network(architecture, task)


class Bare(Small):
    """A space whose networks have no triple."""

    name = "bare"

    def network(self, architecture: str, task: Task) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * task.image_size**2, task.num_classes))


class Scaleless(Small):
    """A space whose batch norms have no scale."""

    name = "scaleless"

    def network(self, architecture: str, task: Task) -> nn.Module:
        layers = super().network(architecture, task).children()
        return nn.Sequential(
            *(nn.BatchNorm2d(i.num_features, affine=False) if isinstance(i, nn.BatchNorm2d) else i for i in layers)
        )


@pytest.fixture
def _small() -> Iterator[None]:
    """Register the spaces during a test, and remove the programs that the test registers."""
    before = dict(SPACES._items), dict(PROXIES._items), dict(AGGREGATES._items)
    for space in (Small, Faulty, Bare, Scaleless):
        SPACES.add(space.name, space)
    yield
    SPACES._items, PROXIES._items, AGGREGATES._items = before
