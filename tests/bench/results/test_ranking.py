from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from scipy import stats as scipy_stats
from zcbench.bench.results.panel import Panel, Sample
from zcbench.bench.results.ranking import Detail, detail
from zcbench.bench.stats.bootstrap import resamples
from zcbench.bench.stats.correlation import correlate

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


def details(
    scores: np.ndarray, truth: np.ndarray, sizes: dict[str, np.ndarray], count: int, *, up: bool = True
) -> Detail:
    panel = Panel("p", 1, 16, tuple(range(scores.shape[1])), scores, np.ones(scores.shape, dtype=bool), up)
    sample = Sample(tuple(map(str, range(N))), truth, resamples(N, count), (panel,))
    return detail(sample.measured[0], sample, sizes, correlate(scores, truth, sample.weights), defaultdict(dict))


def test_details(made: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    scores, truth, sizes = made
    found = details(scores, truth, sizes, 50)
    pearson = np.mean([scipy_stats.pearsonr(column, truth).statistic for column in scores.T])
    assert found.pearson == pytest.approx(pearson)
    assert found.ties == 0
    assert 0 <= found.regret_at_10 < 1
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
    few = {name: sizes[name] for name in ("params", "macs")}
    found = details(scores, truth, few, 20)
    assert set(found.conditional) == {"given_params", "given_macs"}


def test_lower_may_be_better(made: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    scores, truth, sizes = made
    up, down = (details(sign * scores, truth, sizes, 20, up=sign > 0) for sign in (1, -1))
    for name in ("precision_top_10_percent", "ndcg_top_10_percent", "regret_at_10", "best_percentile"):
        assert getattr(up, name) == getattr(down, name)
    assert up.pearson == pytest.approx(-down.pearson)
