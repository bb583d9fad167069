"""Tests of what a program has seen, on a space in which every two networks are one function."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from zcbench.bench.results.board import Board
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import resolve
from zcbench.datasets import data_folder
from zcbench.errors import ProgramError
from zcbench.evolution.data.seen import grounds, unseen
from zcbench.evolution.data.split import draw, part_of
from zcbench.spaces import SPACES
from zcbench.spaces.space import Sizes

pytestmark = pytest.mark.usefixtures("_small")

HERE = {"space": "paired17", "dataset": "cifar10-samples"}


@pytest.fixture
def space():
    class Paired(SPACES["small"]):
        name = "paired17"  # whose twenty classes are 9 in the pool, 5 in validation and 6 sealed

        def representative(self, index):
            return index - index % 2

        def sizes_of(self, architecture, task):
            return Sizes(1, 1)

    SPACES.add("paired17", Paired)
    return Paired()


@pytest.fixture
def board(space):
    config = StudyConfig(**HERE, accuracy="made", proxies=["params"], sample=40, batch_sizes=[2], tracker="none")
    study = resolve(config)
    places = np.array([space.index(network) for network in study.recipe.accuracies], dtype=float)
    return Board("t", "paired17, 40 networks", study.recipe, {"params": places}, ())


def program(**recipe):
    return SimpleNamespace(name="evolved-1", recipe=recipe)


def left(board, space, *programs):
    found = unseen(board, programs, data_folder())
    assert f"{len(found.recipe.accuracies)} networks" in found.name
    indices = [space.index(network) for network in found.recipe.accuracies]
    assert found.sizes["params"].tolist() == indices  # what is known of the networks stays beside them
    assert len(found.recipe.classes) == len(indices)
    return set(indices)


def left_all(board, *programs):
    return unseen(board, programs, data_folder()).recipe.accuracies


def test_pools_and_validation_are_left_out_by_class(board, space):
    searched = {"grounds": [HERE], "pool": 4, "test": 2, "sample_seed": 3, "split": "classes"}
    pool, validation = (set(draw(space, part, n, 3)) for part, n in (("pool", 4), ("validation", 2)))
    read = left(board, space, program(**searched))
    assert {index - index % 2 for index in range(40)} - {index - index % 2 for index in read} == pool | validation
    assert len(read) == 40 - 2 * 6
    assert {index for index in range(40) if part_of(space, index) == "sealed"} < read


def test_a_file_that_does_not_say_how_many_validation_networks_chose_it_may_have_read_all(board, space):
    found = left(board, space, program(grounds=[HERE], pool=4, sample_seed=3, split="classes"))
    assert not any(part_of(space, index) == "validation" for index in found)
    assert len(found) == 40 - 2 * (4 + 5)


def test_a_pool_that_was_drawn_by_network_leaves_out_what_is_equal_to_one_of_it(board, space):
    found = left(board, space, program(grounds=[HERE], pool=7, sample_seed=3))
    drawn = set(space.sample(7, 3))
    assert set(range(40)) - found == drawn | {index ^ 1 for index in drawn}
    assert not left_all(board, program(grounds=[HERE], pool=1000, sample_seed=3))


def test_several_programs_have_seen_what_any_of_them_has(board, space):
    one, other = program(grounds=[HERE], pool=7, sample_seed=3), program(grounds=[HERE], pool=7, sample_seed=4)
    assert left(board, space, one, other) == left(board, space, one) & left(board, space, other)


def test_programs_of_other_spaces_and_of_no_search_have_seen_nothing(board, space):
    assert unseen(board, [program()], data_folder()) is board
    away = program(grounds=[HERE | {"space": "nb301"}], pool=3)
    assert unseen(board, [away], data_folder()) is board


@pytest.mark.parametrize(
    "recipe",
    [
        {"grounds": [HERE]},
        {"grounds": [HERE], "pool": "20", "sample_seed": 0},
        {"grounds": [HERE], "pool": 0, "sample_seed": 0},
        {"grounds": [HERE], "pool": True, "sample_seed": 0},
        {"grounds": [HERE], "pool": math.inf, "sample_seed": 0},
        {"grounds": [HERE], "pool": 20.7, "sample_seed": 0},
        {"grounds": [HERE], "pool": 20, "sample_seed": -1},
        {"grounds": [HERE], "pool": 20, "sample_seed": 0, "split": "Classes"},
        {"grounds": [HERE], "pool": 20, "sample_seed": 0, "split": "classes", "test": math.inf},
        {"grounds": [{"space": ["paired17"], "dataset": "cifar10-samples"}], "pool": 20, "sample_seed": 0},
        {"grounds": [{}]},
        {"grounds": 3},
        {"pools": {"nb201 on cifar10": "1234"}},
    ],
)
def test_a_recipe_that_does_not_say_it_is_refused(board, recipe):
    with pytest.raises(ProgramError, match=r"evolved-1: its recipe does not say which networks it was evolved on"):
        unseen(board, [program(**recipe)], data_folder())


def test_grounds_are_named(board):
    assert grounds(program(grounds=[HERE])) == [("paired17", "cifar10-samples")]
    assert grounds(program()) == []
