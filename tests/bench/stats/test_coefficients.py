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
from zcbench.bench.stats.bootstrap import bootstrap, by_network, concordance
from zcbench.bench.stats.coefficients import (
    Coefficients,
    Correlation,
    bootstrap_kendall,
    bootstrap_spearman,
    coefficients,
    correlate,
    differences,
    holm,
    interval,
    kendall,
    pearson,
    replicate,
    resamples,
    size,
    spearman,
    tied,
    top,
    weighted_kendall,
)

Vector = NDArray[np.float64]
PAIRS = [
    (kendall, stats.kendalltau),
    (spearman, stats.spearmanr),
    (pearson, stats.pearsonr),
    (weighted_kendall, stats.weightedtau),
]
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


@pytest.mark.parametrize("ours", [ours for ours, _ in PAIRS])
@pytest.mark.parametrize(
    ("x", "y"), [([], []), ([1], [2]), ([1, 2], [3, 4]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [4, 4, 4])]
)
def test_undefined_coefficients_are_nan(ours: Any, x: list[float], y: list[float]) -> None:
    assert math.isnan(ours(np.array(x, dtype=float), np.array(y, dtype=float)))


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
@settings(deadline=None, max_examples=60)
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


@pytest.mark.parametrize("function", [ours for ours, _ in PAIRS])
def test_differences_may_overflow(function: Any) -> None:
    # Products over layers can come near the largest float and still be finite.
    x, y = np.array([-1.7e308, 1.7e308, 0]), np.array([1.0, 2, 3])
    assert function(x, y) == near(function(np.array([-1.0, 1, 0]), y))


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


@pytest.mark.parametrize(
    ("n", "share", "expected"),
    [(100, 0.07, 7), (100, 0.29, 29), (1000, 0.001, 1), (7, 1.0, 7), (7, 0.01, 1), (10, 0.11, 2)],
)
def test_size_is_rounded_up_to_whole_networks(n: int, share: float, expected: int) -> None:
    # 0.07 * 100 = 7.000000000000001
    assert size(n, share) == expected


def test_every_percent_of_every_size_is_exact() -> None:
    assert [(n, c) for n in range(1, 400) for c in range(1, 101) if size(n, c / 100) != -(-c * n // 100)] == []


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


def test_spearman_is_the_same_to_the_last_digit_whatever_the_order() -> None:
    x, y = draw(999, 300, 0), draw(999, 200, 1) + draw(999, 300, 0)
    order = np.random.RandomState(0).permutation(999)
    assert spearman(x[order], y[order]) == spearman(x, y) == bootstrap_spearman(x, y, np.ones((1, 999)))[0]


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


@pytest.mark.parametrize("function", [bootstrap_kendall, bootstrap_spearman])
def test_faulty_resamples_are_refused(function: Any) -> None:
    x = np.arange(4.0)
    with pytest.raises(ValueError, match=r"weights: expected \(resamples, 4\), got \(2, 3\)"):
        function(x, x, np.ones((2, 3)))
    with pytest.raises(ValueError, match="expected finite values"):
        function(np.array([1, 2, 3, math.nan]), x, np.ones((2, 4)))


@given(VALUES)
def test_tied_pairs_are_counted(values: tuple[Vector, Vector]) -> None:
    x, n = values[0], len(values[0])
    equal = [x[i] == x[j] for i in range(n) for j in range(i)]
    assert tied(x) == near(np.mean(equal) if equal else math.nan)


@given(VALUES)
@settings(deadline=None)
def test_concordance_equals_its_definition(values: tuple[Vector, Vector]) -> None:
    signs = [np.sign(np.subtract.outer(v, v)) for v in values]
    assert concordance(*values).tolist() == (signs[0] * signs[1]).sum(1).tolist()


@pytest.mark.parametrize("levels", [None, 3, 40, 500])
def test_concordance_across_buckets(levels: int | None) -> None:
    x, y = draw(1500, levels, 0), draw(1500, levels, 1) + draw(1500, levels, 0)
    signs = [np.sign(np.subtract.outer(v, v)) for v in (x, y)]
    assert concordance(x, y).tolist() == (signs[0] * signs[1]).sum(1).tolist()


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
@settings(deadline=None, max_examples=60)
def test_bootstrap_is_symmetric(values: tuple[Vector, Vector]) -> None:
    x, y = values
    small = by_network(resamples(len(x), 5), len(x))
    # Sums of whole numbers are the same to the last digit.
    assert np.array_equal(bootstrap(x, y, small), bootstrap(y, x, small), equal_nan=True)


def test_bootstrap_of_nothing() -> None:
    nothing = np.empty(0)
    assert np.isnan(bootstrap(nothing, nothing, by_network(resamples(0, 4), 0))).tolist() == [[True] * 4] * 2
    assert [len(v) for v in bootstrap(np.arange(5.0), np.arange(5.0), by_network(resamples(5, 0), 5))] == [0, 0]


def test_coefficients_are_means_over_seeds() -> None:
    scores, truth = draw(120, 20, 0).reshape(40, 3), draw(40, None, 1)
    scores[0, 0] = math.nan
    scores[1] = math.inf
    result = coefficients(scores, truth)
    columns = [(c[np.isfinite(c)], truth[np.isfinite(c)]) for c in scores.T]
    expected = Coefficients(
        n=39,
        coverage=1 - 4 / 120,
        ties=float(np.mean([tied(x) for x, _ in columns])),
        rho=float(np.mean([stats.spearmanr(x, y).statistic for x, y in columns])),
        tau=float(np.mean([stats.kendalltau(x, y).statistic for x, y in columns])),
        pearson=float(np.mean([stats.pearsonr(x, y).statistic for x, y in columns])),
        weighted_tau=float(np.mean([stats.weightedtau(x, y).statistic for x, y in columns])),
    )
    assert asdict(result) == near(asdict(expected))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_coefficients_of_nothing(n: int) -> None:
    truth = np.arange(float(n))
    nothing = coefficients(np.full((n, 2), math.nan), truth)
    assert nothing.n == 0
    assert nothing.coverage == near(0.0 if n else math.nan)
    assert all(map(math.isnan, [nothing.rho, nothing.tau, nothing.pearson, nothing.weighted_tau, nothing.ties]))
    constant = coefficients(np.ones((n, 1)), truth)
    assert constant.n == n
    assert math.isnan(constant.rho)
    assert constant.ties == near(1.0 if n > 1 else math.nan)


@pytest.mark.parametrize("function", [coefficients, lambda s, t: correlate(s, t, np.ones((2, len(t))))])
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
    scores, truth = draw(50, None, 0)[:, None], draw(50, None, 1)
    with_them, without = (correlate(scores, truth, resamples(50, count)) for count in (20, 0))
    ends = {"rho_low", "rho_high", "tau_low", "tau_high"}
    assert fields(without, ends) == fields(with_them, ends)
    assert all(math.isnan(fields(without)[name]) for name in ends)


def test_correlate_takes_replicates() -> None:
    scores, truth, weights = draw(120, None, 0).reshape(40, 3), draw(40, None, 1), resamples(40, 50)
    scores[3, 1] = math.nan
    replicates = replicate(scores, truth, weights)
    assert correlate(scores, truth, weights, replicates=replicates) == correlate(scores, truth, weights)
    assert replicates.rho.shape == replicates.tau.shape == (50,)


def test_holm_by_hand() -> None:
    # 0.01 * 4, then 0.02 * 3, 0.03 * 2 is no less, and 0.04 * 1 neither.
    assert holm(np.array([0.04, 0.01, 0.03, 0.02])).tolist() == near([0.06, 0.04, 0.06, 0.06])
    assert holm(np.array([0.5, 0.6])).tolist() == near([1, 1])
    assert holm(np.array([math.nan, 0.01])).tolist() == near([math.nan, 0.02])
    assert holm(np.empty(0)).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_rejects_step_by_step(values: list[float]) -> None:
    p, level = np.array(values), 0.05
    rejected, order = set[int](), np.argsort(p, kind="stable")
    for step, i in enumerate(order.tolist()):
        if p[i] * (len(p) - step) > level:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(p) <= level).tolist()) == rejected


def test_differences_are_paired() -> None:
    truth, weights = draw(80, None, 0), resamples(80, 400)
    proxies = [truth + k * draw(80, None, seed) for k, seed in ((0.3, 1), (0.31, 2), (3, 3))]
    values = np.array([spearman(x, truth) for x in proxies])
    drawn = np.stack([bootstrap_spearman(x, truth, weights) for x in proxies])
    found = differences(values, drawn)
    assert [(d.first, d.second) for d in found] == [(0, 1), (0, 2), (1, 2)]
    for d in found:
        gaps = drawn[d.first] - drawn[d.second]
        assert d.difference == near(values[d.first] - values[d.second])
        assert (d.low, d.high) == near(interval(gaps))
        assert d.p == near(min(1, 2 * (1 + min((gaps <= 0).sum(), (gaps >= 0).sum())) / 401))
        assert d.p_normal == near(2 * stats.norm.cdf(-abs(d.difference) / gaps.std(ddof=1)))
        # An interval excludes 0 where the percentile p is small, and the other way about.
        assert (d.low > 0 or d.high < 0) == (d.p < 0.05)
    assert [d.p_holm for d in found] == near(holm(np.array([d.p_normal for d in found])).tolist())
    assert found[0].p > 0.05
    assert found[1].p_holm < 0.001


def test_differences_turn_round_with_the_pair() -> None:
    truth, weights = draw(60, None, 0), resamples(60, 100)
    x, y = truth + draw(60, None, 1), truth + 2 * draw(60, None, 2)
    values = np.array([kendall(x, truth), kendall(y, truth)])
    drawn = np.stack([bootstrap_kendall(v, truth, weights) for v in (x, y)])
    (there,), (back,) = differences(values, drawn), differences(values[::-1], drawn[::-1])
    assert (back.difference, back.low, back.high) == near((-there.difference, -there.high, -there.low))
    assert (back.p, back.p_normal, back.p_holm) == near((there.p, there.p_normal, there.p_holm))


def test_a_proxy_does_not_differ_from_itself() -> None:
    drawn = np.tile(draw(30, None, 0), (2, 1))
    (found,) = differences(np.array([0.5, 0.5]), drawn)
    assert (found.difference, found.low, found.high, found.p, found.p_normal, found.p_holm) == (0, 0, 0, 1, 1, 1)


def test_differences_without_resamples_are_nan() -> None:
    drawn = np.vstack([draw(30, None, 0), np.full(30, math.nan)])
    (found,) = differences(np.array([0.5, math.nan]), drawn)
    assert all(map(math.isnan, [found.difference, found.low, found.high, found.p, found.p_normal, found.p_holm]))
    assert differences(np.array([0.5]), drawn[:1]) == []
    with pytest.raises(ValueError, match=r"differences: expected \(p,\) and \(p, resamples\)"):
        differences(np.array([0.5]), drawn)


def test_intervals_and_differences_cover_what_they_should() -> None:
    # Normal scores: Kendall's tau of the population is 2/pi arcsin(r), and equal proxies differ by nothing.
    covered, rejected, rounds, r = 0, 0, 200, 1 / math.sqrt(2)
    weights = resamples(200, 300, seed=9)
    for seed in range(rounds):
        truth, x, y = np.random.RandomState(seed).standard_normal((3, 200))
        drawn = np.stack([bootstrap_kendall(truth + v, truth, weights) for v in (x, y)])
        low, high = interval(drawn[0])
        covered += low <= 2 / math.pi * math.asin(r) <= high
        (gap,) = differences(np.array([kendall(truth + v, truth) for v in (x, y)]), drawn)
        rejected += gap.p_normal < 0.05
    # 200 draws of .95 and .05 lie within 4 standard deviations, .06, of these.
    assert covered / rounds == pytest.approx(0.95, abs=0.06)
    assert rejected / rounds == pytest.approx(0.05, abs=0.06)
