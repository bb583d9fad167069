from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from zcbench.bench.stats.bootstrap import bootstrap, by_network, interval, resamples
from zcbench.bench.stats.coefficients import over_seeds, spearman
from zcbench.bench.stats.correlation import Correlation, correlate, correlate_seeds

Vector = NDArray[np.float64]
#: Fields that follow from the top of the scores, which `higher_is_better` turns round.
BY_SCORE = {"rho_top_score", "tau_top_score", "tau_top_score_low", "tau_top_score_high", "top_overlap"}

# Few distinct values make ties, many make none.
VALUES = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-9, 9).map(float), min_size=n, max_size=n).map(np.array)] * 2)
)


def draw(n: int, levels: int | None, seed: int) -> Vector:
    generator = np.random.RandomState(seed)
    values = generator.randint(levels, size=n) if levels else generator.standard_normal(n)
    return np.asarray(values, dtype=np.float64)


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def fields(correlation: Correlation, without: Collection[str] = ()) -> dict[str, float]:
    return {name: value for name, value in asdict(correlation).items() if name not in without}


def bootstrap_kendall(x: Vector, y: Vector, weights: Vector) -> Vector:
    return bootstrap(x, y, by_network(weights, len(y)))[1]


def bootstrap_spearman(x: Vector, y: Vector, weights: Vector) -> Vector:
    return bootstrap(x, y, by_network(weights, len(y)))[0]


def test_correlate_perfect_order() -> None:
    truth = draw(100, None, 0)
    result = correlate(np.exp(truth)[:, None], truth, resamples(100, 100))
    expected = dict.fromkeys(fields(result), 1.0) | {"n": 100}
    assert fields(result) == near(expected)


def test_correlate_reversed_order() -> None:
    truth = draw(100, None, 0)
    result = correlate(-truth[:, None], truth, resamples(100, 100))
    expected = dict.fromkeys(fields(result), -1.0) | {"n": 100, "top_overlap": 0.0}
    assert fields(result) == near(expected)


def test_correlate_leaves_out_what_is_not_finite() -> None:
    scores, truth, weights = draw(60, None, 0), draw(60, None, 1), resamples(60, 50)
    left_out = [0, 7, 31, 59]
    faulty = scores.copy()
    faulty[left_out] = [math.nan, math.inf, -math.inf, math.nan]
    result = correlate(faulty[:, None], truth, weights)
    rest = np.delete(np.arange(60), left_out)
    assert result.n == 56
    assert fields(result) == near(fields(correlate(scores[rest, None], truth[rest], weights[:, rest])))


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_correlate_nothing(seeds: int, value: float) -> None:
    result = correlate(np.full((20, seeds), value), draw(20, None, 0), resamples(20, 10))
    assert result.n == 0
    assert all(map(math.isnan, fields(result, {"n"}).values()))


@pytest.mark.parametrize("finite", [1, 2, 3, 10])
def test_correlate_with_few_finite_scores(finite: int) -> None:
    scores = np.full((20, 1), math.nan)
    scores[:finite, 0] = range(finite)
    result = correlate(scores, np.arange(20.0), resamples(20, 200))
    assert result.n == finite
    # An interval without its coefficient would look like a perfect proxy.
    expected = 1.0 if finite > 2 else math.nan
    assert (result.rho, result.rho_low, result.rho_high) == near((expected,) * 3)
    assert (result.tau, result.tau_low, result.tau_high) == near((expected,) * 3)


def test_correlate_averages_seeds() -> None:
    scores, truth, weights = draw(240, None, 0).reshape(120, 2), draw(120, None, 1), resamples(120, 100)
    one, two = (correlate(scores[:, [s]], truth, weights) for s in (0, 1))
    both = correlate(scores, truth, weights)
    assert both.n == 120
    for name in ("rho", "tau", "top_overlap", "rho_top_accuracy", "tau_top_accuracy", "rho_top_score", "tau_top_score"):
        assert getattr(both, name) == near((getattr(one, name) + getattr(two, name)) / 2)
    for name, draws in (("rho", bootstrap_spearman), ("tau", bootstrap_kendall)):
        means = (draws(scores[:, 0], truth, weights) + draws(scores[:, 1], truth, weights)) / 2
        assert (getattr(both, f"{name}_low"), getattr(both, f"{name}_high")) == near(interval(means))


def test_correlate_seed_without_scores_is_left_out() -> None:
    scores, truth, weights = draw(50, None, 0)[:, None], draw(50, None, 1), resamples(50, 100)
    result = correlate(np.hstack([scores, np.full((50, 1), math.nan)]), truth, weights)
    assert fields(result) == near(fields(correlate(scores, truth, weights)))


def test_correlate_counts_networks_with_any_finite_seed() -> None:
    scores = draw(40, None, 0).reshape(20, 2)
    scores[3, 0] = scores[4] = math.nan
    assert correlate(scores, draw(20, None, 1), resamples(20, 10)).n == 19


def test_lower_is_better_changes_only_the_top_by_score() -> None:
    scores, truth, weights = draw(120, None, 0)[:, None], draw(120, None, 1), resamples(120, 50)
    higher, lower = (correlate(scores, truth, weights, higher_is_better=higher) for higher in (True, False))
    assert fields(lower, BY_SCORE) == fields(higher, BY_SCORE)
    turned = correlate(-scores, truth, weights)
    assert (lower.rho_top_score, lower.tau_top_score) == near((-turned.rho_top_score, -turned.tau_top_score))
    assert lower.top_overlap == turned.top_overlap
    assert lower.rho_top_score != higher.rho_top_score


@given(VALUES, st.sampled_from([lambda v: v**3, lambda v: 3 * v - 7, np.exp, lambda v: v / 1e6]))
@settings(max_examples=60)
def test_correlate_only_looks_at_the_order(values: tuple[Vector, Vector], monotone: Any) -> None:
    scores, truth = values
    weights = resamples(len(truth), 20)
    expected = fields(correlate(scores[:, None], truth, weights))
    assert fields(correlate(monotone(scores)[:, None], truth, weights)) == near(expected)
    assert fields(correlate(scores[:, None], monotone(truth), weights)) == near(expected)


@given(VALUES, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_correlate_does_not_depend_on_the_order_of_networks(values: tuple[Vector, Vector], random: Any) -> None:
    scores, truth = (np.tile(v, 5) for v in values)  # so that the top has ten networks, and ties
    order = random.sample(range(len(truth)), len(truth))
    weights = resamples(len(truth), 20)
    expected = fields(correlate(scores[:, None], truth, weights))
    assert fields(correlate(scores[order, None], truth[order], weights[:, order])) == near(expected)


@pytest.mark.parametrize(
    "function", [partial(over_seeds, spearman), lambda s, t: correlate(s, t, np.ones((2, len(t))))]
)
@pytest.mark.parametrize(
    ("scores", "truth", "message"),
    [
        (np.ones((3, 2)), np.ones(4), r"expected \(n, seeds\) beside accuracies \(n,\), got \(3, 2\) and \(4,\)"),
        (np.ones(3), np.ones(3), r"expected \(n, seeds\)"),
        (np.ones((3, 0)), np.ones(3), r"expected \(n, seeds\)"),
        (np.ones((3, 1)), np.array([1, math.nan, 2]), "got 1 of 3 that are not"),
        (np.ones((3, 1)), np.array([1, math.inf, 2]), "got 1 of 3 that are not"),
    ],
)
def test_faulty_scores_are_refused(function: Any, scores: Vector, truth: Vector, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        function(scores, truth)
    assert "\n" not in str(error.value)


def test_correlate_without_resamples_has_no_intervals() -> None:
    scores, truth = draw(120, None, 0)[:, None], draw(120, None, 1)
    with_them, without = (correlate(scores, truth, resamples(120, count)) for count in (20, 0))
    ends = {name for name in fields(without) if name.endswith(("_low", "_high"))}
    assert fields(without, ends) == fields(with_them, ends)
    assert all(math.isnan(fields(without)[name]) for name in ends)


def test_correlate_takes_what_is_known() -> None:
    scores, truth, weights = draw(360, None, 0).reshape(120, 3), draw(120, None, 1), resamples(120, 50)
    scores[3, 1] = math.nan
    seeds = correlate_seeds(scores, truth, weights)
    assert correlate(scores, truth, weights, seeds=seeds) == correlate(scores, truth, weights)
    assert seeds.drawn_rho.shape == seeds.drawn_tau.shape == (3, 50)
    assert seeds.n.tolist() == [120, 119, 120]
