from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from zcbench.bench.stats import agreement
from zcbench.bench.stats.agreement import every_two
from zcbench.bench.stats.coefficients import kendall, spearman


@pytest.mark.parametrize("n", [3, 10, 201])
@pytest.mark.parametrize("few", [True, False])
def test_every_two_columns_are_as_one_by_one_to_the_last_digit(
    n: int, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "_NETWORKS_PER_SQUARE", 0 if few else 20)
    monkeypatch.setattr(agreement, "_ROOM", 5 * n * 7)  # several blocks
    random = np.random.RandomState(n)
    columns = random.normal(size=(n, 5)) * [1, 1e-300, 1e300, -1, 1]
    columns[:, 3] = np.round(columns[:, 3])
    columns[:, 4] = columns[:, 0] ** 3
    rho, tau = every_two(columns)
    for i in range(5):
        for j in range(5):
            x = columns[:, i]
            alone = [1.0, 1.0] if x.min() < x.max() else [np.nan, np.nan]
            x, y = columns[:, min(i, j)], columns[:, max(i, j)]
            expected = [spearman(x, y), kendall(x, y)] if i != j else alone
            assert np.array_equal([rho[i, j], tau[i, j]], expected, equal_nan=True)
    assert tau[0, 3] == pytest.approx(stats.kendalltau(columns[:, 0], columns[:, 3]).statistic, rel=1e-12, nan_ok=True)
    assert rho[0, 1] == pytest.approx(stats.spearmanr(columns[:, 0], columns[:, 1]).statistic, rel=1e-9, abs=1e-12)


def test_nothing_is_said_of_two_networks_or_a_constant() -> None:
    for found in every_two(np.arange(4.0).reshape(2, 2)):
        assert np.isnan(found).all()
    rho, tau = every_two(np.column_stack([np.arange(9.0), np.ones(9)]))
    for found in (rho, tau):
        assert found[0, 0] == 1
        assert np.isnan(found[1]).all()
    assert every_two(np.zeros((9, 0)))[0].shape == (0, 0)


def test_values_are_finite() -> None:
    with pytest.raises(ValueError, match="expected finite values"):
        every_two(np.asarray([[1.0], [np.nan], [3.0]]))
