import dataclasses
import json
from pathlib import Path

import pytest
from zcbench.bench.scoring.runner import missing, run
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import resolve
from zcbench.errors import ConfigError, ResultsError, UnknownNameError
from zcbench.evolution.engine.config import EngineConfig
from zcbench.evolution.study import search as module
from zcbench.evolution.study.config import EvolveConfig, Ground
from zcbench.evolution.study.search import search

pytestmark = pytest.mark.usefixtures("_small")


@pytest.fixture(scope="module")
def statistics(tmp_path_factory):
    return str(tmp_path_factory.mktemp("statistics"))


@pytest.fixture
def config(tmp_path, statistics):
    return EvolveConfig(
        grounds=[Ground("small", "cifar10-samples", "made")],
        pool=6,
        draw=4,
        test=4,
        out=str(tmp_path / "out"),
        statistics=statistics,
        engine=EngineConfig(generations=2, population=6, parents=4, max_height=3, hall=4, seed=1),
        tracker="none",
    )


def further(config, generations):
    return dataclasses.replace(config, engine=dataclasses.replace(config.engine, generations=generations))


def test_a_search_has_a_table_of_programs_one_of_every_test_and_a_picture(config):
    tables, notes = search(dataclasses.replace(config, tests=[*config.grounds, Ground("small", "noise-cifar10")]))
    assert [table.title.split(":")[0] for table in tables] == [
        tables[0].title.split(":")[0],
        "small on cifar10-samples",
        "small on noise-cifar10",
    ]
    assert tables[0].title.startswith("3 generations in")
    assert notes == [f"figure: {Path(config.out) / 'best.svg'}", f"programs, records, state: {config.out}"]
    drawn = Path(config.out, "best.svg").read_text()
    names = {path.stem for path in Path(config.out, "programs").iterdir()}
    assert len(names) == 3
    assert all(name in drawn for name in names)


def test_what_is_there_already_is_said(config):
    config = dataclasses.replace(config, test=0)
    search(further(config, 0))
    assert "continued from generation 0" in search(config)[1]
    _, notes = search(config)
    assert "all 3 generations are there already: nothing is evolved anew" in notes


def test_nothing_is_computed_twice(config, monkeypatch):
    search(config)

    def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr("zcbench.evolution.data.bank._Job.run", never)
    monkeypatch.setattr("zcbench.evolution.engine.generations._Search.step", never)
    monkeypatch.setattr("zcbench.bench.scoring.runner.score_all", never)
    search(config)


def test_without_matplotlib_there_is_no_picture(config, monkeypatch):
    monkeypatch.setattr(module, "available", lambda: False)
    _, notes = search(config)
    assert not any("figure" in note for note in notes)
    assert not Path(config.out, "best.svg").exists()


def test_aggregates_of_a_run(config, tmp_path):
    """From scores of networks to an aggregate that a run reports beside the proxies."""
    results = str(tmp_path / "results")
    study = StudyConfig(
        space="small",
        dataset="cifar10-samples",
        accuracy="made",
        proxies=["params", "synflow", "snip"],
        sample=24,
        batch_sizes=[2],
        resamples=10,
        out=results,
        tracker="none",
    )
    run(resolve(study))
    engine = dataclasses.replace(config.engine, population=20, min_height=1, max_height=2)
    (table,), _ = search(dataclasses.replace(config, over="ranks", results=results, engine=engine))
    # Two pools, fitted on and tested on, of six rows each: the pool, evolved, random, the weighted sum, and two single
    # proxies.
    assert table.row_count == 12
    assert Path(config.out, "best.svg").exists()
    files = sorted(Path(config.out, "programs").iterdir())
    again = dataclasses.replace(study, include=[str(path) for path in files], proxies=[files[0].stem, "params"])
    resolved = resolve(again)
    assert not missing(resolved, Store(resolved.out))
    assert resolved.recipe.aggregates == (files[0].stem,)
    assert (
        "all 3 generations are there already: nothing is evolved anew"
        in search(dataclasses.replace(config, over="ranks", results=results, engine=engine))[1]
    )


def test_another_version_of_the_format_is_refused(config):
    with pytest.raises(ConfigError, match="version: expected 1, got 2"):
        search(dataclasses.replace(config, version=2))


@pytest.mark.parametrize("over", ["statistics", "ranks"])
def test_a_folder_that_cannot_be_written_is_one_line(config, tmp_path, over):
    (tmp_path / "file").touch()
    results = str(tmp_path / "results")
    if over == "ranks":
        study = StudyConfig(
            space="small",
            dataset="cifar10-samples",
            proxies=["params", "macs"],
            sample=20,
            batch_sizes=[2],
            out=results,
            tracker="none",
        )
        run(resolve(study))
    out = str(tmp_path / "file" / "out")
    with pytest.raises(ResultsError, match=r"out: cannot write to .*file.*: choose another folder") as caught:
        search(dataclasses.replace(config, out=out, over=over, results=results))
    assert "\n" not in str(caught.value)


def test_a_fault_leaves_no_run_of_wandb(config):
    with pytest.raises(UnknownNameError):
        search(dataclasses.replace(config, tracker="wandb", grounds=[Ground("smal", "cifar10-samples")]))
    assert not Path(config.out).exists()


def test_networks_that_are_left_out_are_said(config):
    _, notes = search(
        dataclasses.replace(config, grounds=[Ground("faulty", "cifar10-samples", "made")], pool=9, test=0)
    )
    assert "networks are left out, such as:" in notes[0]
    state = json.loads(Path(config.out, "state.json").read_text())
    (pool,) = state["recipe"]["pools"].values()
    assert 3 <= len(pool) < 9
