"""How busy workers are. Run with `tox -e bench`, on a quiet machine.

pytest tests/benchmarks/test_engine.py --benchmark-enable
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from zcbench.datasets import TASKS
from zcbench.engine import Workers
from zcbench.spaces import SPACES

WORKERS, JOBS = 64, 2_000
#: Mean seconds of a job; networks of NAS-Bench-201 take .5 to 2 s with twelve proxies.
MEAN_S = 1.0


def sleeps(job: tuple[float, float]) -> float:
    """Wait as long as a job takes. Some die at their end at the first try, which counts as time that was not used."""
    seconds, dies = job
    time.sleep(seconds)
    if dies and not os.path.exists(path := f"{os.environ['ZCBENCH_DEAD']}/{seconds!r}"):  # noqa: PTH110
        os.close(os.open(path, os.O_CREAT))
        os.kill(os.getpid(), signal.SIGKILL)
    return seconds


def test_a_cluster_of_64_workers_is_busy(
    benchmark: BenchmarkFixture, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs are as different as the MACs of NAS-Bench-201, and one in twenty jobs kills its worker once.

    The time of a job that is lost counts as busy, and not as useful.
    """
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    monkeypatch.setenv("ZCBENCH_DEAD", str(tmp_path_factory.mktemp("dead")))
    space = SPACES["nb201"](None)
    macs = torch.tensor(
        [float(space.sizes_of(space.architecture(i), TASKS["cifar10"]).macs) for i in space.sample(JOBS)]
    )
    costs = sorted((MEAN_S * (0.5 + 0.5 * macs / macs.mean())).tolist(), reverse=True)
    draw = random.Random(0)
    jobs = [(cost + number * 1e-9, draw.random() < 0.05) for number, cost in enumerate(costs)]

    lost = sum(cost for cost, dies in jobs if dies)

    def run() -> float:
        start = time.perf_counter()
        with Workers(WORKERS) as workers:
            ended = list(workers.run(sleeps, jobs))
        assert all(each.status == "ok" for each in ended)
        assert len(ended) == JOBS
        return sum(each.value or 0.0 for each in ended) / (WORKERS * (time.perf_counter() - start))

    useful = benchmark.pedantic(run, rounds=1)
    busy = useful * (1 + lost / sum(costs))
    benchmark.extra_info |= {"busy": busy, "useful": useful}
    assert busy >= 0.9
