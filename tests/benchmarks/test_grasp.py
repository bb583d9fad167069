"""What GraSP and the eight measures of zero-cost-nas cost, in plain channels-last forward-backwards of one paired run.

Run with `tox -e bench`, or

    pytest tests/benchmarks/test_grasp.py --benchmark-enable
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch.nn.functional import cross_entropy
from zcbench.datasets.tasks import TASKS
from zcbench.proxies import PROXIES
from zcbench.proxies.registry import score_all
from zcbench.spaces import SPACES

EIGHT = ("grad_norm", "snip", "grasp", "fisher", "jacob_cov", "plain", "synflow", "synflow.bn")
#: Largest cost by proxies and number of images.
MOST = {("grasp", 16): 4.2, ("grasp", 64): 4.2, ("eight", 16): 6.5, ("eight", 64): 5.5}


def medians(runs: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median processor seconds of several functions that run in turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds + 1):
        for own, run in zip(times, runs, strict=True):
            start = time.process_time()
            run()
            own.append(time.process_time() - start)
    return [statistics.median(own[1:]) for own in times]


@pytest.mark.parametrize("images", [16, 64])
@pytest.mark.parametrize("index", [6111, 1462, 2011])
def test_cost_in_forward_backwards(index: int, images: int, benchmark: BenchmarkFixture) -> None:
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    space = SPACES["nb201"](None)
    net = space.build(space.architecture(index), TASKS["cifar10"], 0).to(memory_format=torch.channels_last)
    x = torch.randn(images, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    x, y = x.contiguous(memory_format=torch.channels_last), torch.arange(images) % 10
    parameters = list(net.parameters())

    def plain() -> object:
        return torch.autograd.grad(cross_entropy(net(x), y), parameters, allow_unused=True)

    def scored(*names: str) -> Callable[[], object]:
        return lambda: score_all(net, x, y, [PROXIES[name] for name in names])

    without = [name for name in EIGHT if name != "grasp"]
    runs = [plain, scored("grasp"), scored(*EIGHT), scored(*without)]
    unit, grasp, eight, seven = medians(runs, 5)
    found = {"grasp": grasp / unit, "eight": eight / unit, "seven": seven / unit}
    benchmark.extra_info |= found | {"forward_backward_s": unit}
    benchmark.pedantic(plain, rounds=1)
    assert all(found[name] <= most for (name, of), most in MOST.items() if of == images), found
