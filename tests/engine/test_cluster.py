"""Workers on a Ray cluster of this machine: the jobs of `test_local` end alone there too."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import zcbench
from zcbench.engine import ClusterWorkers, Limits, Workers
from zcbench.errors import ConfigError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `cluster`")

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def jobs() -> Iterator[Any]:
    """The module `cluster_jobs`, which processes of Ray find too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH")))))
        yield importlib.import_module("cluster_jobs")


@pytest.fixture(scope="module")
def cluster(jobs: Any) -> Iterator[ClusterWorkers]:
    with ClusterWorkers("", 2, jobs.nothing, limits=Limits(seconds=5, mebibytes=2048)) as workers:
        yield workers


def test_a_job_that_harms_its_process_ends_alone(cluster: ClusterWorkers, jobs: Any) -> None:
    """`test_local` has more kinds of harm; here every worker that dies costs a start of seconds."""
    ended = {each.job: each for each in cluster.run(jobs.job, range(8))}
    assert {n: ended[n].status for n in jobs.DOES} == {1: "crashed", 2: "timeout", 3: "error", 4: "ok"}
    assert ended[1].message == "its process was ended by the signal SIGSEGV"
    plain = [n for n in range(8) if n not in jobs.DOES]
    with Workers(1) as workers:
        expected = {each.job: each.value for each in workers.run(jobs.job, plain)}
    assert {n: ended[n].value for n in plain} == expected


def test_jobs_of_a_caller_that_is_interrupted_end(cluster: ClusterWorkers, jobs: Any, tmp_path: Path) -> None:
    def interrupt() -> None:
        while not any(tmp_path.iterdir()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(cluster.run(jobs.noted, [tmp_path]))
    (note,) = tmp_path.iterdir()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{note.name}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [each.status for each in cluster.run(jobs.parent, [0])] == ["ok"]


def test_a_job_whose_process_of_ray_is_killed_runs_again(cluster: ClusterWorkers, jobs: Any) -> None:
    first = next(cluster.run(jobs.parent, [0])).value
    assert first is not None
    ended = []
    for each in cluster.run(jobs.parent, [10, 20, 300, 300, 300, 300]):
        if not ended:
            assert each.value is not None
            os.kill(each.value, signal.SIGKILL)
        ended.append(each)
    assert [each.status for each in ended] == ["ok"] * 6
    assert ended[0].value not in {each.value for each in ended[2:]}


def test_an_address_at_which_nothing_answers(jobs: Any) -> None:
    with pytest.raises(ConfigError, match=r"expected a Ray cluster at localhost:1, got none .*refused"):
        ClusterWorkers("localhost:1", 1, jobs.nothing)


RUN = ["run", "--batch_sizes", "2", "--proxies", "params,naswot", "--tracker", "none", "--engine", "ray"]


def test_a_run_that_is_told_to_end(tmp_path: Path) -> None:
    """Nothing of it is left, and Ray prints nothing."""
    (tmp_path / "zcbench").symlink_to(Path(zcbench.__file__).parent)
    running = subprocess.Popen(
        [sys.executable, "-m", "zcbench", *RUN, "--workers", "2"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list((tmp_path / "results").rglob("*.parquet")):
        assert running.poll() is None
        time.sleep(0.1)
    known = descendants(running.pid)
    running.send_signal(signal.SIGTERM)
    output, errors = running.communicate(timeout=60)
    assert (running.returncode, output) == (143, "")
    ours = ("study ", "scoring ", "zcbench: terminated; ")
    assert not [line for line in errors.splitlines() if not line.startswith(ours)]
    assert not [pid for pid in known if is_alive(pid)]


def descendants(process: int) -> list[int]:
    found = [
        int(pid) for tasks in Path(f"/proc/{process}/task").glob("*/children") for pid in tasks.read_text().split()
    ]
    return [*found, *(each for pid in found for each in descendants(pid))]


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
