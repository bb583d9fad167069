from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from zcbench.bench.stats import (
    Correlation,
    bootstrap_kendall,
    bootstrap_spearman,
    correlate,
    interval,
    kendall,
    resamples,
    spearman,
    top,
)

Vector = NDArray[np.float64]
PAIRS = [(kendall, stats.kendalltau), (spearman, stats.spearmanr)]
BOOTSTRAPS = [(bootstrap_kendall, stats.kendalltau), (bootstrap_spearman, stats.spearmanr)]
#: Fields that follow from the top of the scores, which `higher_is_better` turns round.
BY_SCORE = {"rho_top_score", "tau_top_score", "top_overlap"}

# Few distinct values make ties, many make none.
VALUES = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-9, 9).map(float), min_size=n, max_size=n).map(np.array)] * 2)
)


def draw(n: int, levels: int | None, seed: int) -> Vector:
    generator = np.random.RandomState(seed)
    values = generator.randint(levels, size=n) if levels else generator.standard_normal(n)
    return np.asarray(values, dtype=np.float64)


def reference(statistic: Any, x: Vector, y: Vector) -> float:
    # SciPy warns on constant input.
    if len(x) < 2 or len(set(x)) == 1 or len(set(y)) == 1:
        return math.nan
    return float(statistic(x, y).statistic)


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def fields(correlation: Correlation, without: Collection[str] = ()) -> dict[str, float]:
    return {name: value for name, value in asdict(correlation).items() if name not in without}


@pytest.mark.parametrize(("ours", "scipys"), PAIRS)
@given(VALUES)
def test_coefficients_equal_scipy(ours: Any, scipys: Any, values: tuple[Vector, Vector]) -> None:
    # Two values are always in perfect order, so fewer than three have no coefficient.
    assert ours(*values) == near(reference(scipys, *values) if len(values[0]) > 2 else math.nan)


@pytest.mark.parametrize(("ours", "scipys"), PAIRS)
@pytest.mark.parametrize("levels", [None, 5])
def test_coefficients_equal_scipy_on_many(ours: Any, scipys: Any, levels: int | None) -> None:
    x, y = draw(2000, levels, 0), draw(2000, levels, 1) + draw(2000, levels, 0)
    assert ours(x, y) == near(reference(scipys, x, y))


@pytest.mark.parametrize("ours", [kendall, spearman])
@pytest.mark.parametrize(
    ("x", "y"), [([], []), ([1], [2]), ([1, 2], [3, 4]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [4, 4, 4])]
)
def test_undefined_coefficients_are_nan(ours: Any, x: list[float], y: list[float]) -> None:
    assert math.isnan(ours(np.array(x, dtype=float), np.array(y, dtype=float)))


@pytest.mark.parametrize(("bootstrap", "scipys"), BOOTSTRAPS)
@pytest.mark.parametrize(
    ("x_levels", "y_levels"),
    [(None, None), (4, None), (None, 4), (2, 2)],
    ids=["no ties", "ties in scores", "ties in truth", "heavy ties"],
)
# The block loop takes 512 rows at a time.
@pytest.mark.parametrize("n", [3, 4, 10, 57, 511, 512, 513, 700])
def test_bootstrap_equals_scipy_on_resamples_written_out(
    bootstrap: Any, scipys: Any, n: int, x_levels: int | None, y_levels: int | None
) -> None:
    x, y = draw(n, x_levels, seed=n), draw(n, y_levels, seed=n + 1)
    weights = resamples(n, 30 if n < 100 else 6, seed=2)
    expected = [reference(scipys, *(np.repeat(v, w.astype(int)) for v in (x, y))) for w in weights]
    assert bootstrap(x, y, weights).tolist() == near(expected)


@pytest.mark.parametrize(("bootstrap", "scipys"), BOOTSTRAPS)
@given(VALUES, st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_bootstrap_equals_scipy_on_any(bootstrap: Any, scipys: Any, values: tuple[Vector, Vector], seed: int) -> None:
    weights = resamples(len(values[0]), 5, seed)
    expected = [reference(scipys, *(np.repeat(v, w.astype(int)) for v in values)) for w in weights]
    assert bootstrap(*values, weights).tolist() == near(expected)


@pytest.mark.parametrize("bootstrap", [bootstrap_kendall, bootstrap_spearman])
def test_constant_resamples_are_nan(bootstrap: Any) -> None:
    x, y = np.array([1.0, 2, 3, 3]), np.array([1.0, 3, 2, 4])
    weights = np.array([[4.0, 0, 0, 0], [0, 0, 2, 2], [1, 1, 1, 1]])
    assert np.isnan(bootstrap(x, y, weights)).tolist() == [True, True, False]


@pytest.mark.parametrize("bootstrap", [bootstrap_kendall, bootstrap_spearman])
def test_empty_resamples_are_nan(bootstrap: Any) -> None:
    # A resample may hold none of the networks whose scores are finite.
    x, y = np.array([1.0, 2, 3]), np.array([1.0, 3, 2])
    assert np.isnan(bootstrap(x, y, np.array([[0.0, 0, 0], [1, 1, 1]]))).tolist() == [True, False]


@pytest.mark.parametrize("function", [kendall, spearman])
def test_differences_may_overflow(function: Any) -> None:
    # Products over layers can come near the largest float and still be finite.
    x, y = np.array([-1.7e308, 1.7e308, 0]), np.array([1.0, 2, 3])
    assert function(x, y) == near(function(np.array([-1.0, 1, 0]), y))


@pytest.mark.parametrize("bootstrap", [bootstrap_kendall, bootstrap_spearman])
def test_differences_may_overflow_in_the_bootstrap(bootstrap: Any) -> None:
    x, y = np.array([-1.7e308, 1.7e308, 0]), np.array([1.0, 2, 3])
    weights = resamples(3, 10)
    assert bootstrap(x, y, weights).tolist() == near(bootstrap(np.array([-1.0, 1, 0]), y, weights).tolist())


@given(st.integers(1, 50), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_resamples_sum_to_n(n: int, count: int, seed: int) -> None:
    weights = resamples(n, count, seed)
    assert weights.shape == (count, n)
    assert weights.min() >= 0
    assert (weights.sum(1) == n).all()
    assert (weights == resamples(n, count, seed)).all()


def test_resamples_stay_for_good() -> None:
    # Published intervals are drawn from this stream.
    # python -c "import numpy as np; print(np.bincount(np.random.RandomState(0).randint(10, size=10), minlength=10))"
    assert resamples(10, 3, seed=0)[0].tolist() == [1, 0, 1, 3, 1, 2, 0, 1, 0, 1]


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_interval_is_of_quantiles(level: float) -> None:
    values = draw(101, None, 0)
    expected = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    assert interval(values, level) == near(tuple(expected))
    assert interval(np.append(values, [math.nan, math.nan]), level) == near(tuple(expected))


@pytest.mark.parametrize("values", [[], [math.nan, math.nan]])
def test_interval_of_nothing_is_nan(values: list[float]) -> None:
    assert all(map(math.isnan, interval(np.array(values))))


def test_correlate_perfect_order() -> None:
    truth = draw(40, None, 0)
    result = correlate(np.exp(truth)[:, None], truth, resamples(40, 100))
    expected = dict.fromkeys(fields(result), 1.0) | {"n": 40}
    assert fields(result) == near(expected)


def test_correlate_reversed_order() -> None:
    truth = draw(40, None, 0)
    result = correlate(-truth[:, None], truth, resamples(40, 100))
    expected = dict.fromkeys(fields(result), -1.0) | {"n": 40, "top_overlap": 0.0}
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
    scores, truth, weights = draw(100, None, 0).reshape(50, 2), draw(50, None, 1), resamples(50, 100)
    one, two = (correlate(scores[:, [s]], truth, weights) for s in (0, 1))
    both = correlate(scores, truth, weights)
    assert both.n == 50
    for name in ("rho", "tau", "rho_top_accuracy", "tau_top_accuracy", *BY_SCORE):
        assert getattr(both, name) == near((getattr(one, name) + getattr(two, name)) / 2)
    for name, bootstrap in (("rho", bootstrap_spearman), ("tau", bootstrap_kendall)):
        means = (bootstrap(scores[:, 0], truth, weights) + bootstrap(scores[:, 1], truth, weights)) / 2
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
    scores, truth, weights = draw(80, None, 0)[:, None], draw(80, None, 1), resamples(80, 50)
    higher, lower = (correlate(scores, truth, weights, higher_is_better=higher) for higher in (True, False))
    assert fields(lower, BY_SCORE) == fields(higher, BY_SCORE)
    turned = correlate(-scores, truth, weights)
    assert (lower.rho_top_score, lower.tau_top_score) == near((-turned.rho_top_score, -turned.tau_top_score))
    assert lower.top_overlap == turned.top_overlap
    assert lower.rho_top_score != higher.rho_top_score


@given(VALUES, st.sampled_from([lambda v: v**3, lambda v: 3 * v - 7, np.exp, lambda v: v / 1e6]))
@settings(deadline=None, max_examples=60)
def test_correlate_only_looks_at_the_order(values: tuple[Vector, Vector], monotone: Any) -> None:
    scores, truth = values
    weights = resamples(len(truth), 20)
    expected = fields(correlate(scores[:, None], truth, weights))
    assert fields(correlate(monotone(scores)[:, None], truth, weights)) == near(expected)
    assert fields(correlate(scores[:, None], monotone(truth), weights)) == near(expected)


@given(VALUES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_correlate_does_not_depend_on_the_order_of_networks(values: tuple[Vector, Vector], random: Any) -> None:
    n = len(values[0])
    # The top breaks ties by position, so only distinct values leave it alone.
    scores, truth = (np.lexsort((np.arange(n), v)).argsort().astype(float) for v in values)
    order = random.sample(range(n), n)
    weights = resamples(n, 20)
    expected = fields(correlate(scores[:, None], truth, weights))
    assert fields(correlate(scores[order, None], truth[order], weights[:, order])) == near(expected)


@given(VALUES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_ties_do_not_depend_on_the_order_of_networks(values: tuple[Vector, Vector], random: Any) -> None:
    scores, truth = values
    order = random.sample(range(len(truth)), len(truth))
    weights = resamples(len(truth), 20)
    without = BY_SCORE | {"rho_top_accuracy", "tau_top_accuracy"}
    expected = fields(correlate(scores[:, None], truth, weights), without)
    assert fields(correlate(scores[order, None], truth[order], weights[:, order]), without) == near(expected)


@pytest.mark.parametrize(
    ("n", "size"), [(1, 1), (9, 1), (10, 1), (11, 2), (200, 20), (1000, 100), (1001, 101), (15_625, 1563)]
)
def test_top_size(n: int, size: int) -> None:
    assert len(top(np.arange(float(n)))) == size


def test_top_of_every_tenth_is_exact() -> None:
    # 0.1 is a little more than a tenth, and must not be rounded up to one network more.
    assert [n for n in range(10, 15_626, 10) if len(top(np.zeros(n))) != n // 10] == []


def test_top_is_the_highest_first() -> None:
    assert top(np.array([3.0, 9, 1, 7, 5]), share=0.5).tolist() == [1, 3, 4]


@pytest.mark.parametrize(
    ("values", "expected"), [([1, 2, 2, 1], [1]), ([5, 5, 5, 5], [0]), ([0, 3, 3, 3], [1]), ([-0.0, 0.0, -1, -1], [0])]
)
def test_top_gives_ties_to_the_lower_index(values: list[float], expected: list[int]) -> None:
    assert top(np.array(values, dtype=float), share=0.25).tolist() == expected
