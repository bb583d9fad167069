from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from zcbench.bench.stats.bootstrap import interval, resamples
from zcbench.bench.stats.coefficients import kendall, spearman
from zcbench.bench.stats.conditional import (
    Conditional,
    among,
    given,
    partial,
    representatives,
    sign_change,
    within,
)
from zcbench.bench.stats.correlation import Correlation, correlate, correlate_seeds

Vector = NDArray[np.float64]
VALUES = st.integers(1, 25).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-9, 9).map(float), min_size=n, max_size=n).map(np.array)] * 3)
)
COEFFICIENTS = (spearman, kendall)


def draw(n: int, levels: int | None, seed: int) -> Vector:
    generator = np.random.RandomState(seed)
    values = generator.randint(levels, size=n) if levels else generator.standard_normal(n)
    return np.asarray(values, dtype=np.float64)


def coefficients(scores: Vector, truth: Vector) -> Correlation:
    return correlate(scores, truth, resamples(len(truth), 0))


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def written_out(weights: Vector, *columns: Vector) -> list[Vector]:
    return [np.repeat(column, weights.astype(int)) for column in columns]


def residual_correlation(x: Vector, y: Vector, z: Vector) -> float:
    """Pearson's correlation of what regression of the ranks on the ranks of z leaves."""
    ranks = [stats.rankdata(v) for v in (x, y)]
    design = np.column_stack([np.ones(len(x)), *(stats.rankdata(v) for v in z.T)])
    left = [r - design @ np.linalg.lstsq(design, r, rcond=None)[0] for r in ranks]
    return float(stats.pearsonr(*left).statistic)


def first_order(f: Any, x: Vector, y: Vector, z: Vector) -> float:
    xy, xz, yz = f(x, y), f(x, z), f(y, z)
    return float((xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2)))


def of(found: Conditional) -> tuple[float, float]:
    return found.rho, found.tau


def size_effect(n: int, seed: int = 0) -> tuple[Vector, Vector, Vector]:
    """Scores and accuracies that grow with size, but fall against each other beside it."""
    size, other = draw(n, 12, seed), draw(n, None, seed + 1)
    return size + other / 2, size - other / 2 + draw(n, None, seed + 2) / 9, size


@pytest.mark.parametrize("levels", [None, 6])
def test_partial_is_of_residuals_and_of_the_formula(levels: int | None) -> None:
    x, y, z = (draw(80, levels, seed) for seed in range(3))
    x, y = x + z, y + 2 * z
    found = given(x[:, None], y, z, resamples(80, 0), coefficients(x[:, None], y))
    assert found.n == 80
    assert found.rho == near(residual_correlation(x, y, z[:, None]))
    assert of(found) == near(tuple(first_order(f, x, y, z) for f in COEFFICIENTS))


def test_partial_by_hand() -> None:
    xy, xz, yz = np.array([0.5, 0.5]), np.array([0.6, -0.6]), np.array([0.8, 0.8])
    assert partial(xy, xz, yz).tolist() == near([(0.5 - 0.48) / (0.8 * 0.6), 1])


@given_any(VALUES, st.sampled_from([lambda v: v**3, lambda v: -2 * v + 1, np.exp]))
@settings(max_examples=40)
def test_partial_does_not_look_at_the_scale_of_the_covariate(values: Any, monotone: Any) -> None:
    x, y, z = values
    overall, none = coefficients(x[:, None], y), resamples(len(x), 0)
    assert of(given(x[:, None], y, monotone(z), none, overall)) == near(of(given(x[:, None], y, z, none, overall)))


def test_partial_turns_round_with_the_scores() -> None:
    x, y, z = size_effect(60)
    overall, weights = coefficients(x[:, None], y), resamples(60, 50)
    there, back = given(x[:, None], y, z, weights, overall), given(-x[:, None], y, z, weights, overall)
    assert (back.rho, back.rho_low, back.rho_high) == near((-there.rho, -there.rho_high, -there.rho_low))
    assert (back.tau, back.tau_low, back.tau_high) == near((-there.tau, -there.tau_high, -there.tau_low))


@pytest.mark.parametrize("function", [np.exp, lambda z: -z, lambda z: z])
def test_what_follows_from_the_covariate_is_nan(function: Any) -> None:
    z, y = draw(60, 9, 0), draw(60, None, 1)
    found = given(function(z)[:, None], y, z, resamples(60, 20), coefficients(z[:, None], y))
    assert all(map(math.isnan, [*of(found), found.rho_low, found.tau_high]))
    assert not found.rho_sign_change
    constant = given(y[:, None], y, np.ones(60), resamples(60, 0), coefficients(z[:, None], y))
    assert all(map(math.isnan, of(constant)))


def test_partial_interval_is_of_resamples_written_out() -> None:
    x, y, z = (draw(30, 8, seed) for seed in range(3))
    weights = resamples(30, 40)
    found = given(x[:, None], y, z, weights, coefficients(x[:, None], y))
    for f, ends in ((spearman, (found.rho_low, found.rho_high)), (kendall, (found.tau_low, found.tau_high))):
        assert ends == near(interval(np.array([first_order(f, *written_out(w, x, y, z)) for w in weights])))


def test_partial_takes_what_is_known() -> None:
    scores, truth, z = draw(120, None, 0).reshape(40, 3), draw(40, None, 1), draw(40, 5, 2)
    scores[:9, 0], scores[:, 2] = math.nan, math.nan
    overall, weights = coefficients(scores, truth), resamples(40, 30)
    for covariate in (z, np.where(np.arange(40) < 3, math.nan, z)):
        seeds = correlate_seeds(scores, truth, weights)
        found = given(scores, truth, covariate, weights, overall, seeds=seeds)
        assert found == given(scores, truth, covariate, weights, overall)


def test_seeds_are_averaged_and_faulty_scores_left_out() -> None:
    scores, truth, z = draw(160, None, 0).reshape(40, 4), draw(40, None, 1), draw(40, 5, 2)
    labels, keep = draw(40, 3, 3), np.arange(40) % 3 > 0
    scores[:9, 0], scores[9, 1], scores[10], scores[:, 3] = math.nan, math.inf, -math.inf, math.nan
    overall, weights = coefficients(scores, truth), resamples(40, 30)
    for f in (
        lambda s, t, w, i: given(s, t, z[i], w, overall),
        lambda s, t, w, i: within(s, t, labels[i], w, overall),
        lambda s, t, w, i: among(s, t, keep[i], w, overall),
    ):
        whole = f(scores, truth, weights, slice(None))
        singles = []
        for column in scores.T[:3]:
            i = np.isfinite(column)
            singles.append(of(f(column[i, None], truth[i], weights[:, i], i)))
        assert of(whole) == near(tuple(np.mean(singles, axis=0)))
        assert not math.isnan(whole.rho_low)


def test_networks_without_covariate_are_left_out() -> None:
    x, y, z = size_effect(60)
    overall, weights = coefficients(x[:, None], y), resamples(60, 30)
    z[[3, 8]] = math.nan, math.inf
    rest = np.isfinite(z)
    found = given(x[:, None], y, z, weights, overall)
    assert found.n == 58
    assert found == given(x[rest, None], y[rest], z[rest], weights[:, rest], overall)


def test_size_can_change_the_sign() -> None:
    x, y, size = size_effect(300)
    scores, weights = x[:, None], resamples(300, 200)
    overall = correlate(scores, y, weights)
    assert overall.rho > 0.9
    for found in (given(scores, y, size, weights, overall), within(scores, y, size, weights, overall)):
        assert found.rho < -0.5
        assert found.rho_high < 0
        assert found.rho_sign_change
    # Without resamples nobody knows whether the interval excludes 0.
    assert not given(scores, y, size, resamples(300, 0), overall).rho_sign_change


@pytest.mark.parametrize(
    ("overall", "value", "low", "high", "expected"),
    [
        (0.5, -0.2, -0.3, -0.1, True),
        (-0.5, 0.2, 0.1, 0.3, True),
        (0.5, -0.2, -0.3, 0.1, False),
        (0.5, 0.2, 0.1, 0.3, False),
        (0.0, -0.2, -0.3, -0.1, False),
        (math.nan, -0.2, -0.3, -0.1, False),
        (0.5, math.nan, math.nan, math.nan, False),
        (0.5, -0.2, math.nan, math.nan, False),
    ],
)
def test_sign_change(overall: float, value: float, low: float, high: float, expected: bool) -> None:
    assert sign_change(overall, value, low, high) is expected


def test_groups_by_hand() -> None:
    # Three groups: in order, against it, and of two networks, which say nothing.
    scores = np.array([[1.0], [2], [3], [1], [2], [3], [4], [1], [2]])
    truth = np.array([10.0, 20, 30, 9, 8, 7, 6, 1, 2])
    labels = np.array([4, 4, 4, 2, 2, 2, 2, 7, 7])
    found = within(scores, truth, labels, resamples(9, 0), coefficients(scores, truth))
    # Weighted by pairs: 6 of -1 and 3 of 1.
    assert (found.n, *of(found)) == near((7, -1 / 3, -1 / 3))


def test_groups_take_any_labels() -> None:
    scores, truth = draw(24, None, 0).reshape(12, 2), draw(12, None, 1)
    overall, none = coefficients(scores, truth), resamples(12, 0)
    scores[0], scores[3, 1] = math.nan, math.inf
    found = within(scores, truth, np.array(["none", "one", "two"] * 4), none, overall)
    pooled = []
    for column in scores.T:
        keep = [np.flatnonzero(np.isfinite(column) & (np.arange(12) % 3 == g)) for g in range(3)]
        keep = [rows for rows in keep if len(rows) > 2]
        pairs = [len(rows) * (len(rows) - 1) for rows in keep]
        pooled.append(np.average([kendall(column[rows], truth[rows]) for rows in keep], weights=pairs))
    assert (found.n, found.tau) == near((11, np.mean(pooled)))
    nothing = within(np.empty((0, 1)), np.empty(0), np.empty(0), resamples(0, 3), overall)
    assert (nothing.n, math.isnan(nothing.rho)) == (0, True)


def test_within_one_group_is_overall() -> None:
    scores, truth, weights = draw(90, None, 0).reshape(30, 3), draw(30, None, 1), resamples(30, 40)
    scores[4, 1] = math.nan
    overall = correlate(scores, truth, weights)
    for found in (
        within(scores, truth, np.zeros(30), weights, overall),
        among(scores, truth, np.ones(30, dtype=bool), weights, overall),
    ):
        known = {name: value for name, value in asdict(overall).items() if name in asdict(found)}
        assert asdict(found) == near(known | {"rho_sign_change": False})


def test_within_interval_is_of_resamples_written_out() -> None:
    x, y, labels, weights = draw(40, 9, 0), draw(40, None, 1), draw(40, 3, 2), resamples(40, 30)
    found = within(x[:, None], y, labels, weights, coefficients(x[:, None], y))
    for f, ends in ((spearman, (found.rho_low, found.rho_high)), (kendall, (found.tau_low, found.tau_high))):
        pooled = []
        for w in weights:
            drawn = [written_out(w[labels == g], x[labels == g], y[labels == g]) for g in range(3)]
            pairs = [len(a) * (len(a) - 1) for a, _ in drawn]
            pooled.append(np.average([f(*pair) for pair in drawn], weights=pairs))
        assert ends == near(interval(np.array(pooled)))


def test_among_is_of_the_rest() -> None:
    scores, truth, weights = draw(80, None, 0).reshape(40, 2), draw(40, None, 1), resamples(40, 30)
    keep = draw(40, 3, 2) > 0
    overall = correlate(scores, truth, weights)
    found, rest = among(scores, truth, keep, weights, overall), correlate(scores[keep], truth[keep], weights[:, keep])
    assert (found.n, *of(found)) == near((rest.n, rest.rho, rest.tau))
    assert (found.rho_low, found.tau_high) == near((rest.rho_low, rest.tau_high))
    nobody = among(scores, truth, np.zeros(40, dtype=bool), weights, overall)
    assert nobody.n == 0
    assert all(map(math.isnan, of(nobody)))


def test_representatives_are_the_first_of_their_class() -> None:
    assert representatives(np.array([3, 1, 3, 2, 1])).tolist() == [True, True, False, True, False]
    assert representatives(np.array(["a", "a", "b"])).tolist() == [True, False, True]
    assert representatives(np.empty(0)).tolist() == []


X, NONE = np.ones((4, 1)), np.ones((2, 4))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (given, (X, np.arange(4.0), np.ones(3), NONE), r"covariate: expected \(4,\), got \(3,\)"),
        (given, (X, np.arange(4.0), np.ones((4, 1)), NONE), r"covariate: expected \(4,\), got \(4, 1\)"),
        (given, (X, np.arange(4.0), np.ones(4), NONE[:, :3]), r"weights: expected \(resamples, 4\), got \(2, 3\)"),
        (given, (X[:3], np.arange(3.0), np.ones(3), np.ones(3)), r"weights: expected \(resamples, 3\), got \(3,\)"),
        (given, (X, np.array([1, 2, 3, math.nan]), np.ones(4), NONE), "got 1 of 4 that are not"),
        (within, (X, np.arange(4.0), np.ones(3), NONE), r"labels: expected \(4,\), got \(3,\)"),
        (within, (X, np.arange(4.0), np.array([1, 2, 3, math.nan]), NONE), "labels: expected one for every network"),
        (within, (X[:3], np.arange(4.0), np.ones(4), NONE), r"scores: expected \(n, seeds\)"),
        (within, (X[:, 0], np.arange(4.0), np.ones(4), NONE), r"scores: expected \(n, seeds\)"),
        (among, (X, np.arange(4.0), np.ones(4), NONE), r"keep: expected \(4,\) of bool, got \(4,\) of float64"),
        (among, (X, np.arange(4.0), np.ones(3, dtype=bool), NONE), r"keep: expected \(4,\) of bool, got \(3,\)"),
    ],
)
def test_faulty_input_is_refused(function: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        function(*arguments, coefficients(draw(9, None, 0)[:, None], draw(9, None, 1)))
    assert "\n" not in str(error.value)


def nb201(folder: Path) -> pd.DataFrame:
    tables = [pd.read_csv(folder / "tables" / "nb201" / f"nb201_{name}.csv") for name in ("core", "zero_cost")]
    return tables[0].merge(tables[1], on="index", validate="one_to_one")


def test_published_correlations_by_number_of_convolutions(real_data: Path) -> None:
    # GRAF, correlations_nb201.ipynb: NASLib's scores and accuracies on CIFAR-10, Spearman for 0 to 6 convolutions. The
    # correlation over all networks says nothing of it.
    table = nb201(real_data).dropna(subset="cifar10_synflow")
    truth, convolutions = table["cifar10valid_test200_seed888"].to_numpy(), table["n_conv1x1"] + table["n_conv3x3"]
    for proxy, overall, published in [
        ("jacov", 0.818, [0.60, 0.75, 0.79, 0.60, 0.32, -0.01, -0.34]),
        ("nwot", 0.792, [0.34, 0.65, 0.66, 0.40, 0.10, -0.15, -0.13]),
        ("synflow", 0.732, [-0.85, 0.05, 0.26, 0.36, 0.43, 0.51, 0.72]),
        ("zen", 0.101, [-0.70, -0.50, -0.35, 0.10, 0.45, 0.59, 0.53]),
        ("params", 0.747, [math.nan, 0.20, 0.29, 0.38, 0.42, 0.48, 0.52]),
    ]:
        scores = table[[f"cifar10_{proxy}"]].to_numpy()
        known = coefficients(scores, truth)
        assert known.rho == pytest.approx(overall, abs=0.001)
        groups = [convolutions.to_numpy() == count for count in range(7)]
        found = [among(scores, truth, group, resamples(9445, 0), known).rho for group in groups]
        assert found == pytest.approx(published, abs=0.006, nan_ok=True)
