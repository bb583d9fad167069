from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from zcbench.bench.stats.bootstrap import bootstrap, by_network, interval, resamples
from zcbench.bench.stats.coefficients import spearman

Vector = NDArray[np.float64]

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
    if len(x) < 3 or len(set(x)) == 1 or len(set(y)) == 1:
        return math.nan
    return float(statistic(x, y).statistic)


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def bootstrap_kendall(x: Vector, y: Vector, weights: Vector) -> Vector:
    return bootstrap(x, y, by_network(weights, len(y)))[1]


def bootstrap_spearman(x: Vector, y: Vector, weights: Vector) -> Vector:
    return bootstrap(x, y, by_network(weights, len(y)))[0]


BOOTSTRAPS = [(bootstrap_kendall, stats.kendalltau), (bootstrap_spearman, stats.spearmanr)]


@pytest.mark.parametrize(("draws", "scipys"), BOOTSTRAPS)
@pytest.mark.parametrize(
    ("x_levels", "y_levels"),
    [(None, None), (4, None), (None, 4), (2, 2)],
    ids=["no ties", "ties in scores", "ties in truth", "heavy ties"],
)
# A bucket has room for 64 ranks.
@pytest.mark.parametrize("n", [3, 4, 10, 57, 63, 64, 65, 128, 129, 700])
def test_bootstrap_equals_scipy_on_resamples_written_out(
    draws: Any, scipys: Any, n: int, x_levels: int | None, y_levels: int | None
) -> None:
    x, y = draw(n, x_levels, seed=n), draw(n, y_levels, seed=n + 1)
    weights = resamples(n, 30 if n < 100 else 6, seed=2)
    expected = [reference(scipys, *(np.repeat(v, w.astype(int)) for v in (x, y))) for w in weights]
    assert draws(x, y, weights).tolist() == near(expected)


@pytest.mark.parametrize(("draws", "scipys"), BOOTSTRAPS)
@given(VALUES, st.integers(0, 1000))
@settings(max_examples=60)
def test_bootstrap_equals_scipy_on_any(draws: Any, scipys: Any, values: tuple[Vector, Vector], seed: int) -> None:
    weights = resamples(len(values[0]), 5, seed)
    expected = [reference(scipys, *(np.repeat(v, w.astype(int)) for v in values)) for w in weights]
    assert draws(*values, weights).tolist() == near(expected)


@pytest.mark.parametrize("draws", [bootstrap_kendall, bootstrap_spearman])
def test_constant_resamples_are_nan(draws: Any) -> None:
    x, y = np.array([1.0, 2, 3, 3]), np.array([1.0, 3, 2, 4])
    weights = np.array([[4.0, 0, 0, 0], [0, 0, 2, 2], [1, 1, 1, 1]])
    assert np.isnan(draws(x, y, weights)).tolist() == [True, True, False]


@pytest.mark.parametrize("draws", [bootstrap_kendall, bootstrap_spearman])
def test_empty_resamples_are_nan(draws: Any) -> None:
    # A resample may hold none of the networks whose scores are finite.
    x, y = np.array([1.0, 2, 3]), np.array([1.0, 3, 2])
    assert np.isnan(draws(x, y, np.array([[0.0, 0, 0], [1, 1, 1]]))).tolist() == [True, False]


@pytest.mark.parametrize("draws", [bootstrap_kendall, bootstrap_spearman])
def test_differences_may_overflow_in_the_bootstrap(draws: Any) -> None:
    x, y = np.array([-1.7e308, 1.7e308, 0]), np.array([1.0, 2, 3])
    weights = resamples(3, 10)
    assert draws(x, y, weights).tolist() == near(draws(np.array([-1.0, 1, 0]), y, weights).tolist())


@given(st.integers(1, 50), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_resamples_sum_to_n(n: int, count: int, seed: int) -> None:
    weights = resamples(n, count, seed)
    assert weights.shape == (count, n)
    assert weights.min() >= 0
    assert (weights.sum(1) == n).all()
    assert (weights == resamples(n, count, seed)).all()


def test_a_class_is_drawn_as_one() -> None:
    classes = [7, 3, 7, 9, 3, 7]
    weights = resamples(6, 50, seed=3, classes=classes)
    assert (weights[:, [0, 1, 3]] == resamples(3, 50, seed=3)).all()  # classes are numbered as they come
    assert (weights == weights[:, [0, 1, 0, 3, 1, 0]]).all()
    assert (resamples(6, 50, seed=3, classes=range(6)) == resamples(6, 50, seed=3)).all()


def test_intervals_by_class_cover_where_those_by_network_do_not() -> None:
    """200 samples of 50 classes with one to six equal networks each; Kendall's tau of a normal pair is known.

    In 1,000 samples, 95 % of the intervals by class covered it, and 63 % of those by network.
    """
    generator, correlation = np.random.RandomState(0), 0.7
    tau = 2 / math.pi * math.asin(correlation)
    covered = np.zeros(2)
    for seed in range(200):
        truth, noise = generator.normal(size=(2, 50))
        classes = np.repeat(np.arange(50), generator.randint(1, 7, size=50))
        x, y = truth[classes], (correlation * truth + math.sqrt(1 - correlation**2) * noise)[classes]
        for place, labels in enumerate((classes.tolist(), None)):
            low, high = interval(bootstrap_kendall(x, y, resamples(len(x), 200, seed, labels)))
            covered[place] += low <= tau <= high
    assert 0.92 <= covered[0] / 200 <= 0.98
    assert covered[1] / 200 < 0.7


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


def test_spearman_is_the_same_to_the_last_digit_whatever_the_order() -> None:
    x, y = draw(999, 300, 0), draw(999, 200, 1) + draw(999, 300, 0)
    order = np.random.RandomState(0).permutation(999)
    assert spearman(x[order], y[order]) == spearman(x, y) == bootstrap_spearman(x, y, np.ones((1, 999)))[0]


@pytest.mark.parametrize("function", [bootstrap_kendall, bootstrap_spearman])
def test_faulty_resamples_are_refused(function: Any) -> None:
    x = np.arange(4.0)
    with pytest.raises(ValueError, match=r"weights: expected \(resamples, 4\), got \(2, 3\)"):
        function(x, x, np.ones((2, 3)))
    with pytest.raises(ValueError, match="expected finite values"):
        function(np.array([1, 2, 3, math.nan]), x, np.ones((2, 4)))


@pytest.mark.parametrize("shape", ["one large tie", "ties beside a bucket", "sorted", "reversed"])
def test_bootstrap_of_uneven_buckets(shape: str) -> None:
    y = draw(400, None, 3)
    x = {
        "one large tie": np.where(np.arange(400) < 300, 0.0, y),
        "ties beside a bucket": np.repeat(np.arange(7.0), [63, 1, 64, 65, 1, 1, 205]),
        "sorted": y,
        "reversed": -y,
    }[shape]
    weights = resamples(400, 5, seed=1)
    written_out = [[np.repeat(v, w.astype(int)) for v in (x, y)] for w in weights]
    assert bootstrap_spearman(x, y, weights).tolist() == near([reference(stats.spearmanr, *v) for v in written_out])
    assert bootstrap_kendall(x, y, weights).tolist() == near([reference(stats.kendalltau, *v) for v in written_out])


@given(VALUES)
@settings(max_examples=60)
def test_bootstrap_is_symmetric(values: tuple[Vector, Vector]) -> None:
    x, y = values
    small = by_network(resamples(len(x), 5), len(x))
    # Sums of whole numbers are the same to the last digit.
    assert np.array_equal(bootstrap(x, y, small), bootstrap(y, x, small), equal_nan=True)


def test_bootstrap_of_nothing() -> None:
    nothing = np.empty(0)
    assert np.isnan(bootstrap(nothing, nothing, by_network(resamples(0, 4), 0))).tolist() == [[True] * 4] * 2
    assert [len(v) for v in bootstrap(np.arange(5.0), np.arange(5.0), by_network(resamples(5, 0), 5))] == [0, 0]
