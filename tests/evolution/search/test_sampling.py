import dataclasses
import math
import random

import pytest
from zcbench.errors import ConfigError
from zcbench.evolution.search.asks import METHODS, Score, Train
from zcbench.evolution.search.sampling import distinct, pool, ranked


def test_networks_of_a_draw_differ_and_begin_a_larger_draw(space):
    few, all_ = distinct(space, 5, random.Random(3)), distinct(space, 0, random.Random(3))
    assert len(set(all_)) == space.size
    assert all_[:5] == few
    assert distinct(space, 5, random.Random(4)) != few


def test_ranks_are_stable_and_put_no_score_last():
    assert ranked([1.0, math.nan, 3.0, 1.0]) == [2, 0, 3, 1]


def test_a_pool_of_a_short_list_is_drawn_from_the_first_of_the_shuffle(setting, space):
    short = dataclasses.replace(setting, config=dataclasses.replace(setting.config, pool=4, shortlist=6))
    listed = {space.architecture(index) for index in space.sample(6, seed=0)}
    drawn = [pool(dataclasses.replace(short, generator=random.Random(seed))) for seed in range(20)]
    assert all(len(set(one)) == 4 and set(one) <= listed for one in drawn)
    assert set().union(*drawn) == listed


def test_random_search_trains_different_networks(setting):
    asked = list(METHODS["random"].search(setting))
    assert len({question.network for question in asked}) == setting.config.budget
    assert all(isinstance(question, Train) for question in asked)


def test_best_trains_in_the_order_of_the_scores(setting, space):
    search = METHODS["best"].search(setting)
    question = next(search)
    assert isinstance(question, Score)
    assert len(question.networks) == setting.config.pool
    order = [search.send([float(space.index(network)) for network in question.networks]).network]
    order += [asked.network for asked in search]
    assert order == sorted(question.networks, key=space.index, reverse=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pool": 41}, "pool: expected 0 to 40 networks of wide, got 41"),
        ({"pool": 7, "shortlist": 6}, "pool: expected 0 to 6 networks of wide, got 7"),
        ({"shortlist": 41}, "shortlist: expected 0 to 40 networks of wide, got 41"),
    ],
)
def test_a_pool_larger_than_what_it_is_drawn_from_is_refused(config, space, changes, words):
    with pytest.raises(ConfigError, match=words):
        METHODS["best"].check(dataclasses.replace(config, **changes), space)
