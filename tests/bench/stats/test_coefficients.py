from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from zcbench.bench.stats.coefficients import kendall, over_seeds, pearson, spearman, tied, weighted_kendall

Vector = NDArray[np.float64]
PAIRS = [
    (kendall, stats.kendalltau),
    (spearman, stats.spearmanr),
    (pearson, stats.pearsonr),
    (weighted_kendall, stats.weightedtau),
]

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


def every(x: Vector, y: Vector) -> tuple[float, ...]:
    return tied(x), *(ours(x, y) for ours, _ in PAIRS)


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


@pytest.mark.parametrize("ours", [ours for ours, _ in PAIRS])
@pytest.mark.parametrize(
    ("x", "y"), [([], []), ([1], [2]), ([1, 2], [3, 4]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [4, 4, 4])]
)
def test_undefined_coefficients_are_nan(ours: Any, x: list[float], y: list[float]) -> None:
    assert math.isnan(ours(np.array(x, dtype=float), np.array(y, dtype=float)))


@pytest.mark.parametrize("function", [ours for ours, _ in PAIRS])
def test_differences_may_overflow(function: Any) -> None:
    # Products over layers can come near the largest float and still be finite.
    x, y = np.array([-1.7e308, 1.7e308, 0]), np.array([1.0, 2, 3])
    assert function(x, y) == near(function(np.array([-1.0, 1, 0]), y))


@pytest.mark.parametrize("ours", [ours for ours, _ in PAIRS])
def test_coefficients_change_sign_with_the_direction(ours: Any) -> None:
    x, y = draw(50, 12, 0), draw(50, 12, 1) + draw(50, 12, 0)
    turned = ours(-x, y, higher_is_better=False) if ours is weighted_kendall else ours(-x, y)
    assert turned == near(-ours(x, y))


@given(VALUES, st.sampled_from([lambda v: v**3, lambda v: 3 * v - 7, np.exp]))
def test_rank_coefficients_only_look_at_the_order(values: tuple[Vector, Vector], monotone: Any) -> None:
    x, y = values
    for ours in (kendall, spearman, weighted_kendall):
        assert ours(monotone(x), y) == near(ours(x, y))
        assert ours(x, monotone(y)) == near(ours(x, y))


def test_known_coefficients() -> None:
    # By hand: 1 2 3 4 against 2 1 4 3 has 4 concordant and 2 discordant pairs, and squared rank differences of 4.
    x, y = np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 4, 3])
    assert kendall(x, y) == near(1 / 3)
    assert spearman(x, y) == near(1 - 6 * 4 / (4 * 15))
    assert pearson(x, y) == near(0.6)
    # The discordant pairs hold ranks (2, 3) and (0, 1) from the top: 1/3 + 1/4 and 1 + 1/2 of 3 (1 + 1/2 + 1/3 + 1/4).
    assert weighted_kendall(x, y) == near(1 - 2 * (1 / 3 + 1 / 4 + 1 + 1 / 2) / (3 * (1 + 1 / 2 + 1 / 3 + 1 / 4)))


@pytest.mark.parametrize("values", [[1e-320, 2e-320, 4e-320], [1e300, 1.5e308, -1.5e308], [1.0, 1 + 1e-9, 1 + 2e-9]])
def test_pearson_of_extreme_values(values: list[float]) -> None:
    x = np.array(values)
    scale = np.abs(x).max()
    assert pearson(x, np.array([1.0, 2, 4])) == pytest.approx(
        stats.pearsonr((x / scale - (x / scale).mean()) * 1e3, [1, 2, 4]).statistic, rel=1e-6
    )


def test_pearson_of_round_off_is_nan() -> None:
    assert math.isnan(pearson(np.full(5, 0.1) + np.array([0, 0, 1, 0, 0]) * 2**-56, np.arange(5.0)))


@pytest.mark.parametrize("ours", [ours for ours, _ in PAIRS])
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2, 3], [1, 2], r"expected two vectors of one length, got \(3,\) and \(2,\)"),
        ([[1, 2, 3]], [[1, 2, 3]], r"expected two vectors of one length, got \(1, 3\)"),
        ([1, 2, math.nan], [1, 2, 3], "expected finite values"),
        ([1, 2, 3], [1, math.inf, 3], "expected finite values"),
    ],
)
def test_faulty_vectors_are_refused(ours: Any, x: list[float], y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        ours(np.array(x, dtype=float), np.array(y, dtype=float))
    assert "\n" not in str(error.value)


@given(VALUES)
def test_tied_pairs_are_counted(values: tuple[Vector, Vector]) -> None:
    x, n = values[0], len(values[0])
    equal = [x[i] == x[j] for i in range(n) for j in range(i)]
    assert tied(x) == near(np.mean(equal) if equal else math.nan)


def test_coefficients_are_means_over_seeds() -> None:
    scores, truth = draw(120, 20, 0).reshape(40, 3), draw(40, None, 1)
    scores[0, 0] = math.nan
    scores[1] = math.inf
    result = over_seeds(every, scores, truth)
    columns = [(c[np.isfinite(c)], truth[np.isfinite(c)]) for c in scores.T]
    expected = [np.mean([statistic(x, y).statistic for x, y in columns]) for _, statistic in PAIRS]
    assert result.tolist() == near([np.mean([tied(x) for x, _ in columns]), *expected])


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_coefficients_of_nothing(n: int) -> None:
    truth = np.arange(float(n))
    assert np.isnan(over_seeds(every, np.full((n, 2), math.nan), truth)).all()
    ties, *constant = over_seeds(every, np.ones((n, 1)), truth)
    assert ties == near(1.0 if n > 1 else math.nan)
    assert np.isnan(constant).all()
