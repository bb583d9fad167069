"""Time that shared passes save, in ratios of medians that are measured in one run on one thread.

Run with `tox -e bench`, or

    pytest tests/benchmarks --benchmark-enable --benchmark-group-by=param:index
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import nn
from zcbench.datasets.tasks import TASKS
from zcbench.proxies import PROXIES
from zcbench.proxies.registry import score_all
from zcbench.spaces import SPACES

EIGHT = ("grad_norm", "snip", "fisher", "jacob_cov", "plain", "synflow", "l2_norm", "naswot")
NASLIB = (*EIGHT, "epe_nas", "macs", "params", "zen")
# The best network of CIFAR-10, one of 3x3 convolutions, one of mostly 1x1, and one without convolutions in its cells.
NETWORKS = [6111, 1462, 2011, 1835]
BATCH = 16


def network(index: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    space = SPACES["nb201"](None)
    x = torch.randn(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return space.build(space.architecture(index), TASKS["cifar10"], 0), x, torch.arange(BATCH) % 10


def forward_backward(index: int) -> Callable[[], object]:
    net, x, y = network(index)
    x = x.contiguous(memory_format=torch.channels_last)
    return lambda: torch.autograd.grad(nn.functional.cross_entropy(net(x), y), list(net.parameters()))


def eight_measures(index: int) -> Callable[[], object]:
    net, x, y = network(index)
    return lambda: score_all(net, x, y, [PROXIES[name] for name in EIGHT])


def eight_one_by_one(index: int) -> Callable[[], object]:
    net, x, y = network(index)
    return lambda: [score_all(net, x, y, [PROXIES[name]]) for name in EIGHT]


@pytest.mark.parametrize("index", NETWORKS)
@pytest.mark.parametrize("make", [forward_backward, eight_measures, eight_one_by_one])
def test_cost(make: Callable[[int], Callable[[], object]], index: int, benchmark: BenchmarkFixture) -> None:
    benchmark.pedantic(make(index), rounds=7, warmup_rounds=2)


@pytest.mark.parametrize("index", NETWORKS)
def test_eight_measures_cost_at_most_two_and_a_half_passes(index: int, benchmark: BenchmarkFixture) -> None:
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    one, eight = forward_backward(index), eight_measures(index)

    def pair() -> float:
        times = []
        for run in (one, eight):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return times[1] / times[0]

    ratios = [pair() for _ in range(12)][2:]
    benchmark.extra_info["ratio"] = statistics.median(ratios)
    benchmark.pedantic(eight, rounds=1)
    assert statistics.median(ratios) <= 2.5


def test_naslib_proxies_cost_at_most_two_fifths_of_one_by_one(benchmark: BenchmarkFixture) -> None:
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    space = SPACES["nb201"](None)
    net = space.build(space.architecture(NETWORKS[0]), TASKS["cifar10"], 0)
    x, y = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 10

    def seconds(*groups: tuple[str, ...]) -> float:
        start = time.perf_counter()
        for names in groups:
            score_all(net, x, y, [PROXIES[name] for name in names])
        return time.perf_counter() - start

    pairs = [(seconds(NASLIB), seconds(*((name,) for name in NASLIB))) for _ in range(4)][1:]
    ratio = statistics.median(together / one_by_one for together, one_by_one in pairs)
    benchmark.extra_info |= {"ratio": ratio, "grasp_s": seconds(("grasp",)), "together_s": pairs[-1][0]}
    benchmark.pedantic(seconds, args=(NASLIB,), rounds=1)
    assert ratio <= 0.4
