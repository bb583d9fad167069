"""What one job does to its process, no other job sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils import backend_registration
from zcbench.engine import Limits, Workers
from zcbench.errors import ConfigError, ResultsError

DOES = {
    7: lambda: os.kill(os.getpid(), signal.SIGSEGV),
    11: lambda: os._exit(3),
    19: lambda: sys.exit(2),
    23: lambda: time.sleep(60),
    31: lambda: 1 / 0,
    37: lambda: np.ones(1 << 30).sum(),  # 8 GiB
    43: lambda: torch.ones(1 << 31).sum(),  # 8 GiB, of which torch says that they cannot be allocated
    41: lambda: (torch.set_num_threads(2), torch.set_default_dtype(torch.float64), os.chdir("/")),
}
HELD: list[np.ndarray] = []


def job(number: int) -> tuple[int, int, str, str]:
    """Return the number and what it finds of its process."""
    DOES.get(number, lambda: None)()
    if number in DOES:
        return number, 1, "torch.float32", ""
    return number, torch.get_num_threads(), str(torch.get_default_dtype()), str(Path.cwd())


@pytest.mark.parametrize("count", [1, 3])
def test_a_job_that_harms_its_process_ends_alone(count: int) -> None:
    with Workers(count, limits=Limits(seconds=2, mebibytes=2048)) as workers:
        ended = {each.job: each for each in workers.run(job, range(60))}
    assert set(ended) == set(range(60))
    assert {n: ended[n].status for n in DOES} == {
        7: "crashed",
        11: "crashed",
        19: "error",
        23: "timeout",
        31: "error",
        37: "out_of_memory",
        43: "out_of_memory",
        41: "ok",
    }
    assert ended[7].message == "its process was ended by the signal SIGSEGV"
    assert ended[11].message == "its process ended with exit status 3"
    assert ended[19].message == "SystemExit: 2"
    assert ended[23].message == "it took longer than 2 s"
    assert ended[31].message == "ZeroDivisionError: division by zero"
    folder = str(Path.cwd())
    assert {n: e.value for n, e in ended.items() if n not in DOES} == {
        n: (n, 1, "torch.float32", folder) for n in range(60) if n not in DOES
    }


def leak(mebibytes: int) -> int:
    HELD.append(np.ones(mebibytes << 17))
    return os.getpid()


def test_a_worker_that_has_grown_is_replaced() -> None:
    with Workers(1, limits=Limits(mebibytes=4096)) as workers:
        found = [each.value for each in workers.run(leak, [10, 1200, 10])]
    assert found[0] == found[1] != found[2]


def where(_: int) -> int:
    time.sleep(0.01)
    return os.getpid()


def test_workers_that_are_killed_lose_nothing() -> None:
    """Every eighth job is followed by a SIGKILL of a worker, whatever this does at the time."""
    with Workers(3) as workers:
        done = []
        for count, each in enumerate(workers.run(where, range(120))):
            done.append((each.job, each.status))
            if count % 8 == 0:
                os.kill(workers._workers[count % len(workers._workers)].process.pid, signal.SIGKILL)
    assert sorted(done) == [(n, "ok") for n in range(120)]


def test_a_worker_that_waits_can_be_killed() -> None:
    with Workers(2) as workers:
        for _ in range(20):
            assert sorted(each.job for each in workers.run(where, range(4))) == [0, 1, 2, 3]
            os.kill(workers._workers[0].process.pid, signal.SIGKILL)
            time.sleep(0.02)


def test_results_of_map_are_in_order() -> None:
    for count in (1, 2):
        with Workers(count) as workers:
            assert list(workers.map(str, list(range(30)))) == [str(n) for n in range(30)]
    with Workers(2) as workers, pytest.raises(ResultsError, match=r"ZeroDivisionError.*are kept"):
        list(workers.map(job, [1, 31, 2]))


def broken() -> None:
    raise ConfigError("include: no such file")


def dying() -> None:
    os._exit(5)


def test_workers_that_cannot_be_started() -> None:
    with Workers(2, broken) as workers, pytest.raises(ResultsError, match=r"cannot be started .*no such file"):
        list(workers.run(where, range(4)))
    with Workers(2, dying) as workers, pytest.raises(ResultsError, match="ended with exit status 5"):
        list(workers.run(where, range(4)))


def test_number_of_workers() -> None:
    with pytest.raises(ConfigError, match="workers: expected 1 or more, got 0"):
        Workers(0)


GRADIENTS = """
import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from zcbench.engine import Workers

def slope(n):
    x = torch.tensor(float(n), requires_grad=True)
    (x * x).backward()
    return float(x.grad)

if __name__ == "__main__":
    _setup_privateuseone_for_python_backend("other")
    for start in ("fork", "spawn"):
        with Workers(2) as workers:
            assert workers._context.get_start_method() == start
            assert list(workers.map(slope, [1, 2, 3])) == [2, 4, 6]
        slope(1)  # with a device beside CPUs, torch starts a thread, and refuses gradients in processes forked later
"""


def test_workers_take_gradients_after_their_parent_has(tmp_path: Path) -> None:
    if torch.cuda.is_available() or not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("needs a machine without a GPU, and a torch in which Python can register a device")
    script = tmp_path / "gradients.py"
    script.write_text(GRADIENTS)
    subprocess.run([sys.executable, str(script)], check=True)


PROGRAM = """
import os, time
from zcbench.engine import Workers

def slow(n):
    os.write(2, f"{os.getpid()}\\n".encode())  # one piece, since both workers write
    time.sleep(60)

with Workers(2) as workers:
    list(workers.run(slow, [1, 2]))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_worker_outlives_its_parent(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    children = [int(process.stderr.readline()) for _ in range(2)]
    process.send_signal(how)
    start = time.monotonic()
    process.wait(30)
    while (alive := [pid for pid in children if _is_alive(pid)]) and time.monotonic() < start + 30:
        time.sleep(0.05)
    assert not alive
    process.stderr.close()


def _is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
