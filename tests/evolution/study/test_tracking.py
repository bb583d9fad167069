from __future__ import annotations

import importlib.util
import json
import re
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pandas as pd
import pytest
import zcbench
from zcbench.errors import ConfigError
from zcbench.evolution.engine.config import EngineConfig
from zcbench.evolution.engine.generations import State
from zcbench.evolution.study.config import EvolveConfig, Ground
from zcbench.evolution.study.search import search
from zcbench.evolution.study.tracking import PAPER_CO2_G, Tracker

pytestmark = [
    pytest.mark.usefixtures("_small"),
    # wandb leaves sockets and files to the interpreter's end.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def offline_records(path):
    """Read an offline run with what the tests of studies read theirs with."""
    beside = Path(__file__).parents[2] / "bench" / "report" / "tracking" / "test_wandb.py"
    spec = importlib.util.spec_from_file_location("bench_test_tracking", beside)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    deadline = time.monotonic() + 60  # wandb writes the last block after it has said that it is finished
    found = module.records(path)
    while not any(record.HasField("exit") for record in found) and time.monotonic() < deadline:
        time.sleep(0.05)
        found = module.records(path)
    return found


@pytest.fixture
def config(tmp_path):
    return EvolveConfig(
        grounds=[Ground("small", "cifar10-samples", "made")],
        pool=6,
        draw=4,
        test=3,
        out=str(tmp_path / "out"),
        engine=EngineConfig(generations=3, population=6, parents=4, max_height=3, hall=4, seed=1),
    )


def test_an_offline_run_can_be_read_back(config, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "nobody"))
    _, notes = search(config)
    (note,) = [note for note in notes if note.startswith("W&B offline; to upload: wandb sync ")]
    folder = Path(note.rsplit(" ", 1)[1])
    assert folder.is_relative_to(config.out)
    (log,) = folder.glob("*.wandb")
    found = offline_records(log)

    start = next(record.run for record in found if record.HasField("run"))
    given = {update.key: json.loads(update.value_json) for update in start.config.update}
    assert given["engine"]["population"] == 6
    assert given["grounds"] == [{"space": "small", "dataset": "cifar10-samples", "accuracy": "made"}]
    assert given["environment"]["torch"]

    steps, table = {}, {}
    for record in found:
        if not record.HasField("history"):
            continue
        items = {
            "/".join(list(item.nested_key) or [item.key]): json.loads(item.value_json) for item in record.history.item
        }
        if "generation" in items:
            steps[record.history.step.num] = items
        table |= {name.split("/")[1]: value for name, value in items.items() if name.startswith("hall of fame/")}
    frame = pd.read_parquet(Path(config.out, "generations.parquet"))
    assert sorted(steps) == [0, 1, 2, 3]
    for step, record in enumerate(frame.to_dict("records")):
        logged = steps[step]
        assert {name: logged[name] for name in record if name != "median"} == {
            name: value for name, value in record.items() if name != "median"
        }
    table = json.loads((folder / "files" / table["path"]).read_text())
    hall = pd.read_parquet(Path(config.out, "hall.parquet"))
    assert table["columns"] == list(hall.columns)
    assert [line[table["columns"].index("program")] for line in table["data"]] == list(hall["program"])
    summary = {
        "/".join(list(update.nested_key) or [update.key]): json.loads(update.value_json)
        for record in found
        for update in record.summary.update
    }
    assert summary["seconds"] == pytest.approx(frame["wall_s"].sum())


def test_with_workers_and_tracking_nothing_hangs(config):
    """Workers of the search, and then those of the test, are forked beside wandb's threads."""
    _, notes = search(replace(config, workers=2))
    assert any(note.startswith("W&B offline") for note in notes)


def test_tracking_can_be_switched_off(config, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    _, notes = search(config)
    assert "not tracked: WANDB_MODE is disabled" in notes
    assert not Path(config.out, "wandb").exists()


class Estimates:
    """Stands in for codecarbon's tracker: 12.3 Wh, 4.5 g."""

    made: ClassVar[list[Estimates]] = []

    def __init__(self, **settings):
        self.settings, self.calls = settings, []
        self.made.append(self)

    def start(self):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")
        self.final_emissions_data = SimpleNamespace(energy_consumed=0.0123, emissions=0.0045)


@pytest.fixture
def codecarbon(monkeypatch):
    module = ModuleType("codecarbon")
    module.OfflineEmissionsTracker = Estimates
    monkeypatch.setitem(sys.modules, "codecarbon", module)
    monkeypatch.setattr(Estimates, "made", [])
    return Estimates.made


def quiet(tmp_path):
    return EvolveConfig(tracker="none", out=str(tmp_path))


def test_energy_is_called_an_estimate_and_compared_with_the_papers(codecarbon, tmp_path):
    with Tracker(quiet(tmp_path)) as tracker:
        tracker.generation(State())
        tracker.finish(State(), [])
    (note,) = tracker.notes
    assert "estimate" in note
    assert "measure" not in note
    assert "12.30 Wh, 4.50 g CO2e" in note
    assert "358.6 g" in note
    assert PAPER_CO2_G == 358.6
    (made,) = codecarbon
    assert made.calls == ["start", "stop"]
    assert made.settings["output_methods"] == []
    assert not list(tmp_path.iterdir())


def test_codecarbon_itself_estimates_without_a_network(tmp_path, monkeypatch):
    pytest.importorskip("codecarbon", reason="the extra carbon is not installed")

    def refused(*args, **settings):
        raise AssertionError("the estimate asked the network")

    monkeypatch.setattr("requests.sessions.Session.request", refused)
    monkeypatch.chdir(tmp_path)
    with Tracker(quiet(tmp_path / "out")) as tracker:
        sum(range(10**6))
        tracker.finish(State(), [])
    (note,) = tracker.notes
    found = re.search(r"nominal power: (\d+\.\d\d) Wh, (\d+\.\d\d) g CO2e", note)
    assert found
    assert 0 <= float(found[1]) < 10
    assert 0 <= float(found[2]) < 10
    assert not list(tmp_path.iterdir())


def test_an_estimate_that_failed_ends_no_search(codecarbon, tmp_path, monkeypatch):
    monkeypatch.setattr(Estimates, "stop", lambda self: None)
    with Tracker(quiet(tmp_path)) as tracker:
        tracker.finish(State(), [])
    assert tracker.notes == ["no estimate of the energy: codecarbon failed"]


def test_the_estimate_ends_with_a_fault_too(codecarbon, tmp_path):
    with pytest.raises(ConfigError), Tracker(quiet(tmp_path)) as tracker:
        raise ConfigError("no")
    assert codecarbon[0].calls == ["start", "stop"]
    assert tracker.notes == []


def test_without_codecarbon_nothing_is_estimated(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with Tracker(quiet(tmp_path)) as tracker:
        tracker.finish(State(), [{"program": "mean(T3)"}])
    assert tracker.notes == []


def test_the_extra_is_declared():
    project = tomllib.loads((Path(zcbench.__file__).parent / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["carbon"] == ["codecarbon>=3.3.2"]
