"""A new kind of pass is one file: this one. It touches no other."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import zcbench
from torch import Tensor, nn
from zcbench.proxies import PROXIES
from zcbench.proxies.passes import DATA, Forward, Logits, Need, Pass
from zcbench.proxies.passes.core import Host
from zcbench.proxies.probe import Probe
from zcbench.proxies.registry import reads, register

RUNS: list[float] = []


@dataclass(frozen=True)
class Shaken(Pass):
    """The logits of the network when seeded noise is added to all parameters."""

    forward: Forward = DATA
    size: float = 0.1

    @property
    def forwards(self) -> int:
        return 1

    @property
    def reads(self) -> frozenset[str]:
        return self.forward.reads

    def run(self, probe: Host) -> Tensor:
        RUNS.append(self.size)
        operations = probe.operations(self.forward.training)
        state, draw = self.forward.state(probe, operations), probe.generator("shaken")
        for name in probe.places.parameters:
            state[name] = state[name] + self.size * torch.randn(state[name].shape, generator=draw)
        with probe.places.given(state, self.forward.training), torch.no_grad():
            x = self.forward.input(probe, self.forward.inputs[0])
            return probe.logits(probe.net(x), len(x))


@dataclass(frozen=True)
class ShakenLogits(Need):
    """These logits `(N, classes)`, float64."""

    of: Shaken = Shaken()

    @property
    def source(self) -> Shaken:
        return self.of

    def value(self, probe: Host) -> Tensor:
        found: Tensor = probe.result(self.of)
        return found.double()


def change(still: Tensor = reads(Logits(DATA)), moved: Tensor = reads(ShakenLogits())) -> float:
    """Take the mean change of a logit."""
    return float((moved - still).abs().mean())


def largest(moved: Tensor = reads(ShakenLogits())) -> float:
    """Take the largest logit."""
    return float(moved.max())


@pytest.fixture(autouse=True)
def two_proxies() -> None:
    register("test_change", paper="a test")(change)
    register("test_largest", paper="a test")(largest)
    RUNS.clear()


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


def test_the_pass_runs_once_for_all_that_read_it(batch: tuple[Tensor, Tensor]) -> None:
    made = net()
    before = [p.clone() for p in made.parameters()]
    scores = zcbench.score(made, *batch, proxies=["test_change", "snip", "test_largest"])
    assert {score.status for score in scores.values()} == {"ok"}
    assert RUNS == [0.1]
    assert all(torch.equal(a, b) for a, b in zip(before, made.parameters(), strict=True))
    alone = zcbench.score(net(), *batch, proxies=["test_change"])["test_change"]
    assert alone.value == scores["test_change"].value > 0


def test_its_card_and_its_cost_are_derived(batch: tuple[Tensor, Tensor]) -> None:
    assert PROXIES["test_change"].passes == (2, 0)
    assert PROXIES["test_change"].reads == ("data",)
    probe = Probe(net(), *batch, plan=PROXIES["test_change"].needs)
    PROXIES["test_change"](probe)
    assert probe.seconds.of[Shaken()] > 0
    probe.keep([])
    PROXIES["test_change"](probe)
    assert len(RUNS) == 2  # what nobody waits for is freed


def test_a_value_of_another_size_is_another_pass(batch: tuple[Tensor, Tensor]) -> None:
    probe = Probe(net(), *batch)
    assert not torch.equal(probe.read(ShakenLogits()), probe.read(ShakenLogits(Shaken(size=0.2))))
    assert RUNS == [0.1, 0.2]
