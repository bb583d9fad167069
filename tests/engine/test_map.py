import os
import signal
import time
from pathlib import Path

import pytest
import torch
from zcbench.engine import Workers
from zcbench.errors import ConfigError, ResultsError


def square(number):
    return number**2, torch.get_num_threads(), os.getpid()


def fail(number):
    raise ConfigError(f"number {number}: expected another")


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_come_in_order_from_one_thread_each(count):
    torch.set_num_threads(2)
    try:
        with Workers(count) as workers:
            found = list(workers.map(square, range(20)))
            assert list(workers.map(square, [])) == []
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert [f[0] for f in found] == [n**2 for n in range(20)]
    assert {f[1] for f in found} == {1}
    assert ({f[2] for f in found} == {os.getpid()}) == (count == 1)


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_comes_as_it_is(count):
    with Workers(count) as workers, pytest.raises(ConfigError, match="number 3: expected another"):
        list(workers.map(fail, [3, 4]))


def test_a_worker_that_dies_is_one_line():
    with Workers(2) as workers, pytest.raises(ResultsError, match="a worker died") as caught:
        list(workers.map(die, range(4)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [0, -1])
def test_there_has_to_be_one(count):
    with pytest.raises(ConfigError, match=f"workers: expected 1 or more, got {count}"):
        Workers(count)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_parent(tmp_path, how):
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            list(Workers(2).map(sleep, [str(tmp_path)] * 2))
        finally:
            os._exit(1)
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert all(map(running, workers))
    os.kill(child, how)
    os.waitpid(child, 0)
    wait_until(lambda: not any(map(running, workers)))
