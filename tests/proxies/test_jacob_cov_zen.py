"""Aggregates over values, by hand and on the scores that NASLib stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import kendalltau
from zcbench.proxies import AGGREGATES

VALUES = [name for name, card in AGGREGATES.items() if card.over == "values"]
Scores = dict[str, NDArray[np.float64]]
ONE = {"jacob_cov": -70.0, "zen": 100.0, "plain": 0.25, "macs": 35e6}


def of(name: str, **changed: float) -> float:
    values = ONE | changed
    return float(AGGREGATES[name].score({m: np.array([values[m]]) for m in AGGREGATES[name].members})[0])


def test_one_network_by_hand() -> None:
    # -70 + 10; -60 - 70 / 35; -60 - 4 / 4 - 140 / 100 - 280 / 35 - 70 / 3500
    assert of("jacob_cov_zen") == pytest.approx(-60, rel=1e-15)
    assert of("jacob_cov_zen.macs") == pytest.approx(-62, rel=1e-15)
    assert of("jacob_cov_zen.symbolic") == pytest.approx(-60 - 1 - 1.4 - 8 - 0.02, rel=1e-14)


@pytest.mark.parametrize("name", VALUES)
def test_a_network_has_the_same_score_in_every_pool(name: str) -> None:
    random = np.random.RandomState(0)
    scores: Scores = {
        "jacob_cov": -64 - random.rand(9),
        "zen": 50 + 100 * random.rand(9),
        "plain": random.randn(9),
        "macs": 1e8 * (0.1 + random.rand(9)),
    }
    whole = AGGREGATES[name].score(scores)
    assert len(set(whole)) == 9
    some = AGGREGATES[name].score({member: values[4:6] for member, values in scores.items()})
    np.testing.assert_array_equal(some, whole[4:6])


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("zen", [-1.0, -np.inf, np.nan])
def test_a_network_without_a_root_of_zen_has_no_score(name: str, zen: float) -> None:
    assert np.isnan(of(name, zen=zen))


def test_nothing_to_multiply_has_no_finite_score() -> None:
    assert of("jacob_cov_zen.macs", macs=0.0) == -np.inf


PUBLISHED = {
    "jacob_cov_zen": (0.713, 0.722, 0.671),
    "jacob_cov_zen.macs": (0.742, 0.743, 0.688),
    "jacob_cov_zen.symbolic": (0.769, 0.756, 0.699),
    "jacob_cov_params": (0.765, 0.750, 0.706),
}


@pytest.fixture(scope="module")
def naslib(real_data: Path) -> pd.DataFrame:
    folder = real_data / "tables" / "nb201"
    scores = pd.read_csv(folder / "nb201_zero_cost.csv", index_col="index")
    core = pd.read_csv(folder / "nb201_core.csv", index_col="index")
    found = scores.join(core[["cifar10_test200", "cifar100_test200", "imagenet16_test200"]])
    return found[found["cifar10_jacov"].notna()]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_coefficients_on_the_scores_of_naslib(name: str, naslib: pd.DataFrame) -> None:
    assert len(naslib) == 9445
    columns = {"jacob_cov": "jacov", "zen": "zen", "plain": "plain", "params": "params", "macs": "flops"}
    scores = {member: naslib[f"cifar10_{column}"].to_numpy() for member, column in columns.items()}
    scores["macs"] = 1e6 * scores["macs"]  # stored in millions
    found = AGGREGATES[name].score(scores)
    ranked = np.isfinite(found)
    assert ranked.sum() >= 9444  # one network has a zen of -1e8, a failure
    for accuracy, tau in zip(("cifar10", "cifar100", "imagenet16"), PUBLISHED[name], strict=True):
        truth = naslib[f"{accuracy}_test200"].to_numpy()
        # .7125 or so without the network that failed.
        assert kendalltau(found[ranked], truth[ranked]).statistic == pytest.approx(tau, abs=0.0006)
