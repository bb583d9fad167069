"""A space of forty small networks with mutations, two accuracies, and what searches of it are asked with."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from torch import nn
from zcbench.datasets.tasks import TASKS, Task
from zcbench.evolution.search.asks import Setting
from zcbench.evolution.search.benchmark import Benchmark, read_benchmark
from zcbench.evolution.search.config import SearchConfig
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.spaces import SPACES, Space
from zcbench.spaces.space import Truth


class Wide(Space):
    """Networks of one convolution of 1 to 40 channels; the accuracy grows with the width."""

    name = "wide"
    paper = ""
    truths: Mapping[str, Mapping[str, str]] = {
        "cifar10": {"test-made": "made up", "valid-made": "made up, with noise", "few": "of two networks"},
        "cifar100": {"test-made": "made up"},
    }
    size = 40

    def architecture(self, index: int) -> str:
        return f"wide {self.check_index(index)}"

    def index(self, architecture: str) -> int:
        return int(architecture.split()[1])

    def mutate(self, architecture: str, generator: random.Random) -> str:
        index = self.index(architecture)
        near = range(max(0, index - 3), min(self.size, index + 4))
        return self.architecture(generator.choice([other for other in near if other != index]))

    def network(self, architecture: str, task: Task) -> nn.Module:
        width = 1 + self.index(architecture)
        body = nn.Conv2d(3, width, 3, stride=4), nn.BatchNorm2d(width), nn.ReLU()
        return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes))

    def read_truth(self, task: str, which: str) -> Truth:
        values = 50.0 + np.arange(self.size, dtype=np.float64)
        if which == "valid-made":
            values = values + np.random.RandomState(0).normal(size=self.size)
        if which == "few":
            values[2:] = np.nan
        return Truth(f"{task}/{which}", self.truths[task][which], values)


class Broken(Wide):
    """The same with networks that cannot be built."""

    name = "broken"

    def network(self, architecture: str, task: Task) -> nn.Module:
        raise RuntimeError("no such kernel")


class Still(Wide):
    """The same without mutations."""

    name = "still"
    mutate = Space.mutate


@pytest.fixture(autouse=True)
def _spaces() -> Iterator[None]:
    before = dict(SPACES._items), dict(PROXIES._items), dict(AGGREGATES._items)
    for space in (Wide, Broken, Still):
        SPACES.add(space.name, space)
    yield
    SPACES._items, PROXIES._items, AGGREGATES._items = before


@pytest.fixture
def space() -> Space:
    return Wide()


@pytest.fixture
def benchmark_of(space: Space) -> Benchmark:
    return read_benchmark(space, "cifar10")


@pytest.fixture
def config(tmp_path: Path) -> SearchConfig:
    return SearchConfig(
        space="wide",
        dataset="cifar10-samples",
        proxy=["params"],
        budget=8,
        repeats=3,
        pool=10,
        population=4,
        tournament=2,
        children=3,
        batch_size=2,
        results=str(tmp_path / "results"),
        out=str(tmp_path / "out"),
        tracker="none",
    )


@pytest.fixture
def setting(space: Space, config: SearchConfig) -> Setting:
    return Setting(space, TASKS["cifar10"], "params", config, random.Random(0))
