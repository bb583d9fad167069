from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from zcbench.bench.stats.bootstrap import interval, resamples
from zcbench.bench.stats.ceiling import ceiling
from zcbench.bench.stats.coefficients import spearman
from zcbench.bench.stats.top import top

Vector = NDArray[np.float64]


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def written_out(weights: Vector, *columns: Vector) -> list[Vector]:
    return [np.repeat(column, weights.astype(int)) for column in columns]


def noisy(n: int, runs: int, noise: float, missing: float = 0, seed: int = 0) -> tuple[Vector, Vector]:
    generator = np.random.RandomState(seed)
    true = generator.standard_normal(n)
    found = true[:, None] + noise * generator.standard_normal((n, runs))
    found[generator.rand(n, runs) < missing] = math.nan
    return true, found


def test_ceiling_by_its_formula() -> None:
    _, runs = noisy(50, 3, 0.5)
    runs[:10, 2] = math.nan
    found = ceiling(runs, resamples(50, 0))
    r = np.mean([spearman(runs[:, 0], runs[:, 1]), *(spearman(runs[10:, a], runs[10:, 2]) for a in (0, 1))])
    k = 50 / (10 / 2 + 40 / 3)
    assert (found.n, found.runs, found.single) == near((50, k, r))
    assert found.reliability == near(k * r / (1 + (k - 1) * r))
    assert found.rho == near(math.sqrt(found.reliability))
    assert math.isnan(found.rho_low)


@pytest.mark.parametrize(("noise", "missing"), [(0.1, 0), (0.5, 0), (1, 0), (0.5, 0.3)])
def test_ceiling_is_what_the_truth_attains(noise: float, missing: float) -> None:
    true, runs = noisy(4000, 4, noise, missing)
    known = np.isfinite(runs).any(1)
    attained = spearman(true[known], np.nanmean(runs[known], axis=1))
    found = ceiling(runs, resamples(4000, 100))
    assert found.rho == pytest.approx(attained, abs=0.01)
    assert found.rho_low < found.rho < found.rho_high
    assert found.rho_high - found.rho_low < 0.03


def test_ceiling_inside_the_top_is_not_what_noise_has_chosen() -> None:
    true, runs = noisy(20_000, 3, 0.3)
    generator = np.random.RandomState(1)
    chosen = top(true + 0.3 * generator.standard_normal(20_000))
    attained = spearman(true[chosen], (true + 0.3 / math.sqrt(3) * generator.standard_normal(20_000))[chosen])
    found = ceiling(runs, resamples(20_000, 20), share=0.1)
    assert found.rho == pytest.approx(attained, abs=0.02)
    # Among those that their own noise has chosen, less is attained.
    mean = runs.mean(axis=1)
    assert spearman(true[top(mean)], mean[top(mean)]) < found.rho - 0.05


def test_ceiling_interval_is_of_resamples_written_out() -> None:
    _, runs = noisy(40, 2, 0.5)
    weights = resamples(40, 30)
    found = ceiling(runs, weights)
    drawn = np.array([spearman(*written_out(w, *runs.T)) for w in weights])
    assert (found.rho_low, found.rho_high) == near(interval(np.sqrt(2 * drawn / (1 + drawn))))


def test_ceiling_of_noise_is_zero() -> None:
    runs = np.column_stack([np.arange(20.0), -np.arange(20.0)])
    assert (ceiling(runs, resamples(20, 5)).single, ceiling(runs, resamples(20, 5)).rho) == (-1, 0)


@pytest.mark.parametrize(
    "runs", [np.empty((0, 2)), np.ones((5, 0)), np.arange(5.0)[:, None], np.full((5, 2), math.nan), np.ones((5, 3))]
)
def test_ceiling_without_two_runs_is_nan(runs: Vector) -> None:
    for share in (None, 0.5):
        found = ceiling(runs, resamples(len(runs), 3), share)
        assert found.n == 0
        assert all(map(math.isnan, [found.single, found.reliability, found.rho, found.rho_low]))


def test_ceiling_inside_the_top_takes_three_runs() -> None:
    assert math.isnan(ceiling(noisy(100, 2, 0.1)[1], resamples(100, 3), share=0.1).rho)
    assert not math.isnan(ceiling(noisy(100, 3, 0.1)[1], resamples(100, 3), share=0.1).rho)


@pytest.mark.parametrize("runs", [np.ones(3), np.array([[1, math.inf]])])
def test_ceiling_refuses_faulty_runs(runs: Vector) -> None:
    with pytest.raises(ValueError, match="runs: expected finite or NaN accuracies"):
        ceiling(runs, resamples(len(runs), 2))


def test_runs_of_nb201_leave_room_overall_and_less_inside_the_top(real_data: Path) -> None:
    table = pd.read_csv(real_data / "tables" / "nb201" / "nb201_core.csv")
    runs = table[[f"cifar10_test200_trial{i}" for i in range(3)]].to_numpy()
    weights = resamples(len(runs), 50)
    overall, inside = ceiling(runs, weights), ceiling(runs, weights, share=0.1)
    # 2,225, 5,439 and 7,961 networks have one, two and three runs.
    assert (overall.n, overall.runs) == (13_400, pytest.approx(15_625 / (2225 + 5439 / 2 + 7961 / 3)))
    assert overall.rho == pytest.approx(0.9966, abs=0.0001)
    assert inside.rho == pytest.approx(0.942, abs=0.001)
    assert inside.rho_high < overall.rho_low
