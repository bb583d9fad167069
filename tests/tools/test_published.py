from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zcbench
from scipy import stats
from zcbench.bench.report.published import every
from zcbench.bench.results.published.sources import read_leaderboard
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.tools.agreement import NASLIB
from zcbench.tools.published import REASONS, lines, main, page

DOCS = Path(zcbench.__file__).parent / "docs"
BOARD = DOCS / "board"


@pytest.fixture(scope="module")
def board():
    return next(s for s in read_leaderboard(BOARD) if (s[0].recipe.space, s[0].recipe.dataset) == ("nb201", "cifar10"))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(BOARD / "leaderboard.csv", dtype={"seeds": str})


@pytest.fixture
def stored(board) -> pd.DataFrame:
    """Return scores of NASLib that are ours, turned over, of all networks but the first three."""
    made = pd.DataFrame({"arch_str": board[0].recipe.architectures[3:]})
    wide = board[1].pivot(index="architecture", columns="proxy", values="value").loc[made["arch_str"]]
    for ours, name in NASLIB.items():
        made[f"cifar10_{name}"] = -wide[ours].to_numpy()
    return made


def test_published_names_are_proxies() -> None:
    known = {p.proxy for p in every()}
    assert known <= set(PROXIES) | set(AGGREGATES)
    assert set(REASONS) <= known


def test_both_are_ranked_on_the_networks_in_common(board, table: pd.DataFrame, stored: pd.DataFrame) -> None:
    found = {line.proxy: line for line in lines(board, table, stored)}
    snip = found["snip"]
    own = board[1][board[1]["proxy"] == "snip"].set_index("architecture")["value"][stored["arch_str"]]
    truth = pd.Series(dict(zip(board[0].recipe.architectures, board[0].recipe.values, strict=True)))[own.index]
    finite = np.isfinite(own)
    expected = stats.kendalltau(own[finite], truth[finite]).statistic
    assert snip.ours_here == pytest.approx(expected)
    assert snip.theirs_here == pytest.approx(-expected)
    assert snip.agreement == pytest.approx(-1)
    assert snip.common == int(finite.sum())
    assert np.isnan(found["zico"].theirs_here)  # of another source than NASLib


def test_a_difference_without_a_reason_is_an_error(board, table: pd.DataFrame, stored: pd.DataFrame) -> None:
    zico = next(line for line in lines(board, table, stored) if line.proxy == "zico")
    assert zico._replace(published=zico.high).reason == "within our interval"
    with pytest.raises(KeyError, match="zico"):
        _ = zico._replace(published=zico.high + 0.01).reason


def test_every_published_coefficient_is_explained_in_the_page(real_data: Path) -> None:
    file = real_data / "tables" / "nb201" / "nb201_zero_cost.csv"
    assert main(BOARD, file) == (DOCS / "published.md").read_text("utf-8")


def test_numbers_have_three_digits(board, table: pd.DataFrame, stored: pd.DataFrame) -> None:
    text = page([next(lines(board, table, stored))], 200)
    assert "200 networks" in text
    assert "nan" not in text
