"""The published board: every coefficient follows from its scores, as SciPy computes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zcbench
from scipy import stats
from zcbench.bench.results.published.sources import read_leaderboard

BOARD = Path(zcbench.__file__).parent / "docs" / "board"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(BOARD / "leaderboard.csv", dtype={"seeds": str})


@pytest.fixture(scope="module")
def sources():
    return read_leaderboard(BOARD)


def test_every_coefficient_is_scipys(table: pd.DataFrame, sources) -> None:
    known = table.set_index(["id", "proxy"])
    checked = 0
    for board, rows in sources:
        truth = dict(zip(board.recipe.architectures, board.recipe.values, strict=True))
        for proxy, own in rows.groupby("proxy"):
            row = known.loc[(board.id, proxy)]
            found = []
            for _, seed in own.groupby("seed"):
                finite = seed[np.isfinite(seed["value"])]
                x, y = finite["value"].to_numpy(), finite["architecture"].map(truth).to_numpy()
                if len(x) >= 10 and np.ptp(x):
                    found.append([stats.kendalltau(x, y).statistic, stats.spearmanr(x, y).statistic])
            if found:
                expected = np.mean(found, axis=0)
                assert row[["tau", "rho"]].tolist() == pytest.approx(expected.tolist(), abs=1e-9), (board.title, proxy)
                checked += 1
            else:
                assert np.isnan(row["tau"])
    assert checked > 100


def test_no_score_failed(sources) -> None:
    for board, rows in sources:
        failed = rows[rows["status"].isin(["error", "crashed", "timeout", "out_of_memory"])]
        assert failed.empty, (board.title, failed.iloc[0].to_dict())


def test_baselines_stand_on_every_board(table: pd.DataFrame) -> None:
    for title, own in table.groupby("title"):
        assert {"params", "macs", "random"} <= set(own["proxy"]), title
