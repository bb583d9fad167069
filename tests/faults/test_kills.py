"""Processes of a run are killed at random moments; the scores end as if nothing had happened.

ZCBENCH_KILLS is the number of kills of each case: 2 by default, 200 in the long form, `tox -e faults`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from zcbench.bench.scoring.parts import KEY

KILLS = int(os.environ.get("ZCBENCH_KILLS", "2"))
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
#: Exit statuses of a driver that a signal has ended.
ENDED = {-signal.SIGKILL: "", 130: "interrupted", 143: "terminated"}


def children(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def descendants(process: int) -> list[int]:
    own = children(process)
    return [*own, *(each for child in own for each in descendants(child))]


def is_of_ray(process: int) -> bool:
    """Tell whether a process holds a worker of a Ray cluster."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::_Host")
    except OSError:
        return False


def workers_of(engine: str, process: int) -> list[int]:
    return children(process) if engine == "local" else [each for each in descendants(process) if is_of_ray(each)]


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def started(running: subprocess.Popen[str], engine: str = "local") -> bool:
    return bool(workers_of(engine, running.pid)) or running.poll() is not None


CASES = [(engine, workers) for engine in ("local", "ray") for workers in (1, 2, 3)]


@pytest.mark.parametrize(("engine", "workers"), CASES if KILLS > 2 else [("local", 2)])
@pytest.mark.parametrize("whom", ["a worker", "all workers", "the driver"])
def test_killed_at_random_it_ends_as_undisturbed(
    command: Any, clean: pd.DataFrame, tmp_path: Path, whom: str, engine: str, workers: int
) -> None:
    draw = random.Random(f"{whom} {engine} {workers}")
    kills = ends = 0
    while kills < KILLS:
        out = f"results-{ends}"
        running = command.start(out, workers=workers, engine=engine)
        assert wait_until(lambda p=running: started(p, engine), 60)
        time.sleep(draw.uniform(0, 1.5 if engine == "local" else 8))
        known, found = descendants(running.pid), workers_of(engine, running.pid)
        number = draw.choice(SIGNALS)
        victims = {"a worker": found[:1], "all workers": found, "the driver": [running.pid]}[whom]
        for victim in victims:
            if is_alive(victim):
                os.kill(victim, number)
                kills += 1
        _, errors = running.communicate(timeout=120)
        assert wait_until(lambda k=known: not any(map(is_alive, k)), 20), "a worker outlives the run"
        if running.returncode in ENDED:
            assert whom == "the driver"
            assert ENDED[running.returncode] in errors
            continue  # the same folder, which the next run goes on with
        assert running.returncode == 0, errors
        rows = command.rows(out)
        assert not rows.duplicated(list(KEY)).any()
        pd.testing.assert_frame_equal(rows, clean, check_exact=True)
        ends += 1
    assert command(f"results-{ends}", hard="no", workers=workers).returncode == 0
    pd.testing.assert_frame_equal(command.rows(f"results-{ends}"), clean, check_exact=True)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_told_to_end_says_how_to_go_on(command: Any, number: int, status: int) -> None:
    running = command.start("results", hard="yes", workers=2, limit_s=300)  # one network sleeps
    assert wait_until(lambda: started(running), 60)
    time.sleep(1)
    known = children(running.pid)
    os.killpg(running.pid, number)  # as a terminal does
    time.sleep(0.1)
    os.kill(running.pid, number)  # who is in a hurry presses twice
    _, errors = running.communicate(timeout=60)
    assert running.returncode == status
    assert errors.splitlines()[-1].endswith("what is finished is kept, the same command goes on from there")
    assert wait_until(lambda: not any(map(is_alive, known)), 20)
