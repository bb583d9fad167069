import math

import numpy as np
import pytest
from zcbench.evolution.search.outcome import lines, mean, outcomes, steps
from zcbench.evolution.search.play import Run, Trained


def run(method, repeat, *accuracies, proxy=""):
    trained = [Trained(f"wide {test}", 0, 10.0 * (n + 1), v, t) for n, (v, t, test) in enumerate(accuracies)]
    return Run(method, proxy, repeat, trained)


RUNS = [
    run("random", 0, (50.0, 60.0, 1), (40.0, 70.0, 2), (55.0, 65.0, 3)),
    run("random", 1, (50.0, 62.0, 1), (50.0, 80.0, 2)),
    run("aging", 0, (51.0, 66.0, 1), proxy="snip"),
    run("aging", 1, (51.0, 61.0, 2), proxy="snip"),
]


def test_the_chosen_network_has_the_best_validation_accuracy():
    assert [(step.chosen, step.best_test) for step in steps(RUNS[0])] == [(0, 60.0), (0, 70.0), (2, 70.0)]
    assert [step.chosen for step in steps(RUNS[1])] == [0, 0]  # of equal ones the first


def test_an_outcome_is_of_the_ends_of_runs(benchmark_of):
    random, aging = outcomes(RUNS, benchmark_of)
    assert (random.name, random.trained, random.validation, random.test.value) == ("random", 2.5, 52.5, 63.5)
    assert (aging.name, aging.test.value) == ("aging snip", 63.5)
    assert aging.gain.value == pytest.approx(0.0)  # +1 and -1
    assert aging.better == 1.0
    assert aging.gain.low == -1.0
    assert aging.gain.high == 1.0


def test_a_line_is_as_long_as_its_shortest_run():
    random, _ = lines(RUNS)
    assert random.trained.tolist() == [1.0, 2.0]
    assert random.value.tolist() == [61.0, 61.0]
    assert random.seconds.tolist() == [10.0, 20.0]


def test_the_interval_of_a_mean_narrows_with_repeats():
    """The standard error of a mean of n normal draws is 1 / sqrt(n), and an interval is 3.92 of them wide."""
    few, many = (mean(np.random.RandomState(0).normal(size=n)) for n in (25, 400))
    for found, n in ((few, 25), (many, 400)):
        assert found.high - found.low == pytest.approx(3.92 / math.sqrt(n), rel=0.3)
    assert math.isnan(mean(np.array([1.0])).low)
    assert math.isnan(mean(np.array([])).value)
