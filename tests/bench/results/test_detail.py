from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats
from zcbench.bench.results.detail import detail
from zcbench.bench.stats.coefficients import correlate, resamples

N = 60


@pytest.fixture
def made() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Two seeds of scores that follow the parameters, as the accuracies do, and say nothing else."""
    random = np.random.RandomState(0)
    params = random.permutation(N).astype(float)
    truth = 50 + params / 2 + random.normal(size=N)
    scores = params[:, None] + random.normal(size=(N, 2))
    sizes = {
        "params": params,
        "macs": random.normal(size=N),
        "convolutions": np.arange(N) % 3.0,
        "isomorphism_class": np.arange(N) // 2.0,
        "unreachable": (np.arange(N) % 4 == 0).astype(float),
    }
    return scores, truth, sizes


def test_details(made: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    scores, truth, sizes = made
    weights = resamples(N, 50)
    found = detail(scores, truth, sizes, weights, correlate(scores, truth, weights), higher_is_better=True)
    pearson = np.mean([scipy_stats.pearsonr(column, truth).statistic for column in scores.T])
    assert found.pearson == pytest.approx(pearson)
    assert found.ties == 0
    assert 0 <= found.regret_10 < 1
    # What follows the parameters alone is gone when they are taken out, and is there when others are.
    assert abs(found.conditional["given_params"].rho) < 0.5
    assert found.conditional["given_macs"].rho > 0.9
    assert found.conditional["among_classes"].n == N // 2
    assert found.conditional["among_reachable"].n == 3 * N // 4
    assert found.conditional["within_convolutions"].n == N
    flat = found.flat()
    assert flat["rho_given_macs"] == found.conditional["given_macs"].rho
    assert flat["sign_change_given_macs"] == ""
    assert all(isinstance(value, float | str) for value in flat.values())


def test_a_space_that_knows_of_sizes_alone(made: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    scores, truth, sizes = made
    weights = resamples(N, 20)
    few = {name: sizes[name] for name in ("params", "macs")}
    found = detail(scores, truth, few, weights, correlate(scores, truth, weights), higher_is_better=True)
    assert set(found.conditional) == {"given_params", "given_macs"}


def test_lower_may_be_better(made: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    scores, truth, sizes = made
    weights = resamples(N, 20)
    up, down = (
        detail(
            sign * scores, truth, sizes, weights, correlate(sign * scores, truth, weights), higher_is_better=sign > 0
        )
        for sign in (1, -1)
    )
    assert (up.precision_10, up.regret_10, up.best_percentile) == (
        down.precision_10,
        down.regret_10,
        down.best_percentile,
    )
    assert up.pearson == pytest.approx(-down.pearson)
