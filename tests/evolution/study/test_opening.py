"""Tests of openings: what they read, what they record, and that the program scores as it did."""

import dataclasses
import json

import pandas as pd
import pytest
from scipy.stats import kendalltau
from zcbench.bench.results.board import boards
from zcbench.errors import ConfigError, ProgramError, ResultsError
from zcbench.evolution.data.split import part_of
from zcbench.evolution.study import opening as module
from zcbench.evolution.study.config import EvolveConfig, Ground
from zcbench.evolution.study.found import Found, read
from zcbench.evolution.study.opening import open_sealed
from zcbench.evolution.study.shown import read as read_shown
from zcbench.spaces import SPACES
from zcbench.spaces.space import Sizes

pytestmark = pytest.mark.usefixtures("_small")


@pytest.fixture
def config(tmp_path, monkeypatch):
    # Sizes of a space without a closed form are counted on every network.
    monkeypatch.setattr(SPACES["small"], "sizes_of", lambda self, architecture, task: Sizes(1, 1))
    return EvolveConfig(
        grounds=[Ground("small", "cifar10-samples", "made")],
        test=11,
        proxies=["params", "naswot_conv"],
        out=str(tmp_path / "out"),
        tracker="none",
    )


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "few-layers.json"
    Found(name="few-layers", program="sum(log(min_eigenvalue))", over="layers", batch_size=2).write(path)
    return path


def test_an_opening_is_recorded_with_what_came_out(config, program):
    (table,) = open_sealed([program], config)
    assert table.row_count == 2
    found = read(program)
    (record,) = found.openings
    assert (record["space"], record["dataset"], record["n"]) == ("small", "cifar10-samples", 11)
    assert set(record["against"]) == {"params", "naswot_conv"}
    assert "tau_top" not in record  # the most accurate tenth are two networks
    difference = record["against"]["params"]
    assert difference["difference"] == pytest.approx(record["tau"] - difference["tau"])
    assert difference["low"] <= difference["difference"] <= difference["high"]

    (board,) = boards(program.parent / "out" / "sealed")
    space = SPACES["small"](None)
    assert {part_of(space, space.index(network)) for network in board.recipe.accuracies} == {"sealed"}
    (file,) = [f for f in (program.parent / "out" / "sealed").rglob("*.parquet")][:1]
    rows = pd.read_parquet(file)
    own = rows[rows["proxy"] == "few-layers"].set_index("architecture")["value"]
    truth = pd.Series(board.recipe.accuracies)
    assert record["tau"] == pytest.approx(kendalltau(own.loc[truth.index], truth).statistic)


def test_each_opening_is_one_more_record(config, program):
    open_sealed([program], config)
    open_sealed([program], dataclasses.replace(config, test=10))
    openings = json.loads(program.read_text())["openings"]
    assert [record["n"] for record in openings] == [11, 10]


def test_a_ground_with_fewer_sealed_classes_is_opened_whole(config, program):
    open_sealed([program], dataclasses.replace(config, test=40))
    space = SPACES["small"](None)
    sealed = {space.representative(n) for n in range(space.size) if part_of(space, space.representative(n)) == "sealed"}
    (record,) = read(program).openings
    assert record["n"] == len(sealed) < 40


def test_several_grounds_are_compared_by_the_lowest_tau_too(config, program):
    grounds = [*config.grounds, Ground("scaleless", "cifar10-samples", "made")]
    *tables, least = open_sealed([program], dataclasses.replace(config, grounds=grounds))
    assert len(tables) == len(read(program).openings) == 2
    assert "few-layers against others, each where it ranks worst of 2 boards" in str(least.title)


def test_a_ground_is_opened_with_its_own_number_of_images(config, program):
    open_sealed([program], dataclasses.replace(config, grounds=[Ground("small", "cifar10-samples", "made", 3)]))
    (record,) = read(program).openings
    assert record["batch_sizes"] == [3]
    assert read(program).batch_size == 2


def test_an_opening_with_other_seeds_is_of_its_own_run(config, program):
    open_sealed([program], config)
    open_sealed([program], dataclasses.replace(config, seeds=[0, 1]))
    assert len(read(program).openings) == 2


def test_an_opening_that_was_killed_leaves_a_record(config, program, monkeypatch):
    def killed(study):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "run_study", killed)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                open_sealed([program], config)
    (record,) = read(program).openings
    assert record["begun"]
    assert "tau" not in record
    assert read_shown(program).sealed == {}
    open_sealed([program], dataclasses.replace(config, test=10))  # another opening
    open_sealed([program], config)
    assert [("begun" in r, r["n"], "tau" in r) for r in read(program).openings] == [
        (False, 10, True),
        (False, 11, True),
    ]


@pytest.mark.parametrize(
    "recipe", [{"grounds": [{"space": "small"}], "split": "networks"}, {"pools": {"small on cifar10, made": "0"}}]
)
def test_a_program_that_may_know_sealed_networks_is_refused(config, program, recipe):
    dataclasses.replace(read(program), recipe=recipe).write(program)
    with pytest.raises(ConfigError, match="was evolved on networks of small without `split: classes`"):
        open_sealed([program], config)
    dataclasses.replace(read(program), recipe=recipe | {"split": "classes"}).write(program)
    assert open_sealed([program], config)


def test_a_program_that_was_edited_after_its_opening_is_refused(config, program):
    open_sealed([program], config)
    dataclasses.replace(read(program), program="sum(params)").write(program)
    with pytest.raises(ProgramError, match="is not what its openings are of"):
        open_sealed([program], config)


def test_no_sealed_network_is_too_few(config, program):
    with pytest.raises(ConfigError, match="test: expected 10 or more sealed networks, got 9"):
        open_sealed([program], dataclasses.replace(config, test=9))


def test_programs_of_several_batch_sizes_are_refused(config, program, tmp_path):
    other = tmp_path / "other.json"
    Found(name="other", program="sum(depth)", over="layers", batch_size=3).write(other)
    with pytest.raises(ResultsError, match="one batch size, got 2, 3"):
        open_sealed([program, other], config)
