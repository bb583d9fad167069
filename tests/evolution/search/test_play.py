import dataclasses

import numpy as np
import pytest
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ConfigError
from zcbench.evolution.search import aging, sampling  # noqa: F401 - they register their methods
from zcbench.evolution.search.asks import METHODS, Method, Score, Train
from zcbench.evolution.search.play import Budget, Run, play


class Widths:
    """Scores in place of those of a proxy: the width of a network. It keeps what each round asks for."""

    def __init__(self):
        self.rounds = []

    def need(self, wanted, progress):
        self.rounds.append(list(wanted))

    def of(self, proxy, networks):
        return [float(network.split()[1]) for network in networks]


@pytest.fixture
def played(space, config, benchmark_of):
    def run(method, proxy="params", repeats=3, benchmark=benchmark_of, **changes):
        runs = [Run(method, proxy, repeat) for repeat in range(repeats)]
        scores = Widths()
        play(runs, space, TASKS["cifar10"], dataclasses.replace(config, **changes), benchmark, scores)
        return runs, scores

    return run


@pytest.fixture
def method():
    """Register a method for one test."""
    before = dict(METHODS._items)
    yield lambda search, **kind: METHODS.add("made", Method(search, scores=True, **kind))
    METHODS._items = before


@pytest.mark.parametrize("name", ["random", "aging", "aging.warmup", "aging.moves", "best"])
def test_a_run_is_a_function_of_seed_and_repeat(played, name):
    first, second, other = played(name)[0], played(name)[0], played(name, seed=1)[0]
    assert repr(first) == repr(second)  # a NaN is not equal to itself
    assert [run.trained for run in first] != [run.trained for run in other]
    assert all(len(run.trained) == 8 for run in first)
    # More repeats do not change those that are there.
    assert repr(played(name, repeats=5)[0][:3]) == repr(first)


def test_trainings_hold_both_accuracies(played, benchmark_of):
    (run,) = played("random", repeats=1)[0]
    for training in run.trained:
        assert (training.validation, training.test) == benchmark_of.trained(training.network)[:2]


def test_repeats_ask_for_scores_together(played):
    _, scores = played("aging.moves", children=2, budget=6)
    assert len(scores.rounds) == 2
    assert all(3 <= len(asked) <= 6 for asked in scores.rounds)


def test_what_a_method_asks_for_next_is_scored_with_the_first(played, method):
    def search(given):
        for proxy in (given.proxy, "macs"):
            yield Score(("wide 1", "wide 2"), proxy)
        yield Train("wide 1")

    method(search, also=lambda proxy: ("macs",))
    _, scores = played("made", repeats=1)
    assert scores.rounds[0] == [(proxy, network) for proxy in ("params", "macs") for network in ("wide 1", "wide 2")]


def test_a_network_is_scored_once_in_the_count(played, method):
    def search(given):
        for _ in range(3):
            yield Score(("wide 1", "wide 2"), given.proxy)
        yield Train("wide 1")
        yield Train("wide 1")

    method(search)
    (run,) = played("made", repeats=1)[0]
    assert run.scored == {("params", "wide 1"): 1.0, ("params", "wide 2"): 2.0}
    assert len(run.trained) == 2  # a network that is trained twice costs twice


def test_no_budget_is_exceeded(played, space, benchmark_of, method):
    def search(given):
        for width in range(40):
            yield Score((f"wide {width}",), given.proxy)
            yield Train(f"wide {width}")
        return ("wide 0",)

    method(search)
    (run,) = played("made", repeats=1, budget=5)[0]
    assert (len(run.trained), len(run.scored), run.found) == (5, 5, ())
    (run,) = played("made", repeats=1, budget=50, proxy_budget=7)[0]
    assert (len(run.trained), len(run.scored)) == (7, 7)
    timed = dataclasses.replace(benchmark_of, seconds=np.full(space.size, 10.0))
    (run,) = played("made", repeats=1, budget=50, seconds=35.0, benchmark=timed)[0]
    assert [training.seconds for training in run.trained] == [10.0, 20.0, 30.0]
    (run,) = played("made", repeats=1, budget=50)[0]
    assert (len(run.trained), run.found) == (40, ("wide 0",))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"trained": 0}, "budget: expected 1 trained network or more, got 0"),
        ({"trained": 1, "scored": -1}, "proxy_budget: expected 0 or more, got -1"),
        ({"trained": 1, "seconds": float("nan")}, "seconds: expected 0 or more, got nan"),
    ],
)
def test_a_budget_of_nothing_is_refused(numbers, words):
    with pytest.raises(ConfigError, match=words):
        Budget(**numbers)
