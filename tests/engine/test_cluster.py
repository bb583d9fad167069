"""Workers on a Ray cluster of this machine: the jobs of `test_local` end alone there too."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from zcbench.engine import ClusterWorkers, Limits, Workers
from zcbench.errors import ConfigError, ResultsError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `cluster`")

DOES = {
    1: lambda: os.kill(os.getpid(), signal.SIGSEGV),
    2: lambda: os._exit(3),
    3: lambda: sys.exit(2),
    4: lambda: time.sleep(60),
    5: lambda: 1 / 0,
    6: lambda: np.ones(1 << 30).sum(),  # 8 GiB
    7: lambda: (torch.set_num_threads(2), torch.set_default_dtype(torch.float64), os.chdir("/")),
}


def nothing() -> None:
    """Prepare nothing."""


def job(number: int) -> tuple[str, int, float]:
    """Return what the job finds of its process, and a value that depends on the order of sums."""
    DOES.get(number, lambda: None)()
    found = str(Path.cwd()), torch.get_num_threads()
    x = torch.randn(200, 200, generator=torch.Generator().manual_seed(number))
    return *found, float((x @ x.t()).logdet().nan_to_num() + x.sum())


def parent(milliseconds: int) -> int:
    """Return the process of Ray that holds this worker."""
    time.sleep(milliseconds / 1000)
    return os.getppid()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterWorkers]:
    # Ray leaves sockets to the garbage collector.
    with ClusterWorkers("", 2, nothing, limits=Limits(seconds=5, mebibytes=2048)) as workers:
        yield workers


@pytest.mark.timeout(300)
def test_a_job_that_harms_its_process_ends_alone(cluster: ClusterWorkers) -> None:
    ended = {each.job: each for each in cluster.run(job, range(12))}
    assert {n: ended[n].status for n in DOES} == {
        1: "crashed",
        2: "crashed",
        3: "error",
        4: "timeout",
        5: "error",
        6: "out_of_memory",
        7: "ok",
    }
    assert ended[1].message == "its process was ended by the signal SIGSEGV"
    plain = [n for n in range(12) if n not in DOES]
    with Workers(1) as workers:
        expected = {each.job: each.value for each in workers.run(job, plain)}
    assert {n: ended[n].value for n in plain} == expected


def test_a_job_whose_process_of_ray_is_killed_runs_again(cluster: ClusterWorkers) -> None:
    first = next(cluster.run(parent, [0])).value
    assert first is not None
    ended = []
    for each in cluster.run(parent, [10, 20, 300, 300, 300, 300]):
        if not ended:
            assert each.value is not None
            os.kill(each.value, signal.SIGKILL)
        ended.append(each)
    assert [each.status for each in ended] == ["ok"] * 6
    assert ended[0].value not in {each.value for each in ended[2:]}


def test_jobs_of_a_caller_that_stops_reading_end(cluster: ClusterWorkers) -> None:
    ends = cluster.run(parent, [0, 30_000, 30_000])
    host = next(ends).value
    assert host is not None
    ends.close()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{host}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [each.status for each in cluster.run(parent, [0])] == ["ok"]


def broken() -> None:
    raise ConfigError("include: no such file")


def test_workers_that_cannot_be_started(cluster: ClusterWorkers) -> None:
    with pytest.raises(ConfigError, match=r"expected a Ray cluster at 127\.0\.0\.1:1, got none"):
        ClusterWorkers("127.0.0.1:1", 1, nothing)
    assert cluster.count == 2
