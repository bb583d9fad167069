import dataclasses
import itertools
import random

import pytest
from zcbench.errors import ConfigError
from zcbench.evolution.search import aging as module  # noqa: F401 - it registers the methods
from zcbench.evolution.search.asks import METHODS, Score
from zcbench.spaces import SPACES


def asked(name, setting, accuracy, score=lambda network: 0.0, trainings=12):
    """Return the questions of a method until it has asked for some trainings; scores and accuracies are functions."""
    search, questions, answer = METHODS[name].search(setting), [], None
    while sum(not isinstance(question, Score) for question in questions) < trainings:
        questions.append(search.send(answer))
        question = questions[-1]
        answer = [*map(score, question.networks)] if isinstance(question, Score) else accuracy(question.network)
    return questions


def test_the_oldest_network_leaves_however_good_it_is(setting, space):
    """With a tournament of the whole population, a child is a mutant of the best of the last four trainings."""
    config = dataclasses.replace(setting.config, tournament=60)  # drawn with replacement: all four are in it
    trained = [
        q.network for q in asked("aging", dataclasses.replace(setting, config=config), space.index, trainings=40)
    ]
    for place in range(4, 40):
        parent = max(map(space.index, trained[place - 4 : place]))
        assert 1 <= abs(space.index(trained[place]) - parent) <= 3
    assert len(set(trained[:4])) == 4


def test_a_warm_up_trains_the_best_of_a_pool(setting, space):
    score, *trained = asked("aging.warmup", setting, space.index, space.index, trainings=4)
    assert len(score.networks) == setting.config.pool
    best = sorted(score.networks, key=space.index, reverse=True)
    assert [question.network for question in trained] == best[:4]


def test_moves_train_the_mutant_with_the_highest_score(setting, space):
    questions = asked("aging.moves", setting, space.index, space.index, trainings=10)
    pairs = [(q, after) for q, after in itertools.pairwise(questions) if isinstance(q, Score)]
    assert len(pairs) == 6
    for question, training in pairs:
        assert 1 <= len(question.networks) <= setting.config.children
        assert training.network == max(question.networks, key=space.index)


def test_plain_evolution_begins_with_the_networks_of_random_search(setting, space):
    first = []
    for name in ("aging", "random"):
        given = dataclasses.replace(setting, generator=random.Random(5))
        first.append([question.network for question in asked(name, given, space.index, trainings=4)])
    assert first[0] == first[1]


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("aging", {"population": 41}, "population: expected 1 to 40 networks of wide, got 41"),
        ("aging", {"population": 0}, "population: expected 1 to 40 networks of wide, got 0"),
        ("aging", {"tournament": 0}, "tournament: expected 1 or more, got 0"),
        ("aging.moves", {"children": 0}, "children: expected 1 or more, got 0"),
        ("aging.warmup", {"pool": 3}, "pool: expected at least the population of 4 networks, got 3"),
        ("aging.warmup", {"pool": 0, "shortlist": 2}, "pool: expected at least the population of 4 networks, got 2"),
    ],
)
def test_impossible_numbers_are_refused(config, space, name, changes, words):
    with pytest.raises(ConfigError, match=words):
        METHODS[name].check(dataclasses.replace(config, **changes), space)


def test_a_space_without_mutations_is_refused(config):
    with pytest.raises(ConfigError, match="still has no mutations of a network: expected random or best"):
        METHODS["aging"].check(config, SPACES["still"](None))
