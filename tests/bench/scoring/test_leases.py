from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from zcbench.bench.scoring.leases import Leases

A, B = [("a", 1)], [("b", 1)]


def test_a_network_has_one_run_at_a_time(tmp_path: Path) -> None:
    with Leases(tmp_path) as first, Leases(tmp_path) as second:
        assert first.take("net", A) == "mine"
        assert first.take("net", A) == "mine"
        assert second.take("net", A) == "taken"
        assert second.take("net", B) == "taken"  # other proxies of the same network
        assert second.take("other", A) == "mine"
        first.finish("net", A)
        assert second.take("net", A) == "done"
        assert second.take("net", B) == "mine"


def test_what_a_run_leaves_is_free_and_what_it_did_is_known_to_those_beside_it(tmp_path: Path) -> None:
    with Leases(tmp_path) as second:
        with Leases(tmp_path) as first:
            first.take("done", A)
            first.finish("done", A)
            assert first.take("left", B) == "mine"
        assert second.take("left", B) == "mine"
        assert second.take("done", A) == "done"
    assert [path.name for path in (tmp_path / "leases").iterdir()] == ["lock"]
    with Leases(tmp_path) as later:  # the store knows what is done; an attempt is tried again
        assert later.take("done", A) == "mine"


def hold(folder: Path) -> None:
    with Leases(folder) as leases:
        leases.take("net", A)
        (folder / "held").touch()
        time.sleep(60)


def test_the_networks_of_a_killed_run_are_free_at_once(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=hold, args=(tmp_path,))
    process.start()
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    with Leases(tmp_path) as leases:
        assert leases.take("net", A) == "taken"
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        assert leases.take("net", A) == "mine"


def many(folder: Path, name: str) -> None:
    with Leases(folder) as leases:
        for number in range(300):
            if leases.take(f"net {number}", [(number,)]) == "mine":
                with (folder / name).open("a") as stream:
                    stream.write(f"{number}\n")
                leases.finish(f"net {number}", [(number,)])
        time.sleep(1)


def test_many_runs_do_each_job_once(tmp_path: Path) -> None:
    start = multiprocessing.get_context("fork")
    runs = [start.Process(target=many, args=(tmp_path, f"log-{number}")) for number in range(4)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    done = [int(line) for log in tmp_path.glob("log-*") for line in log.read_text().split()]
    assert sorted(done) == list(range(300))


def test_without_locks_every_job_is_of_this_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Leases(tmp_path) as leases:
        assert leases.take("net", A) == "mine"
        leases.finish("net", A)
    assert "has no locks (Function not implemented)" in capsys.readouterr().err


def test_two_runs_into_one_folder_share_the_networks(tmp_path: Path) -> None:
    """Before: both did all of the work."""
    command = [sys.executable, "-m", "zcbench", "run", "--sample", "16", "--batch_sizes", "[4]", "--tracker", "none"]
    options = ["--proxies", "[params,naswot,grasp]", "--out", "results", "--format", "csv"]
    runs = [
        subprocess.Popen([*command, *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    parts = [pd.read_parquet(part, partitioning=None) for part in (tmp_path / "results" / "scores").rglob("*.parquet")]
    assert len(pd.concat(parts)) == 16 * 3
