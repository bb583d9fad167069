"""The published board: every coefficient follows from its scores, as SciPy computes it."""

from __future__ import annotations

import re
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


def test_the_headline_of_the_readme_is_that_of_the_board(table: pd.DataFrame) -> None:
    text = " ".join((Path(zcbench.__file__).parent / "README.md").read_text("utf-8").split())
    overview = pd.read_csv(BOARD / "overview.csv").set_index("proxy")
    one = table[(table["space"] == "nb201") & (table["dataset"] == "cifar10")].set_index("proxy")
    numbers = re.search(
        r"and random scores on (\d+) boards.* On ([\d,]+) networks of NAS-Bench-201 and "
        r"CIFAR-10, `meco` has a Kendall's τ of (\S+) \[(\S+) (\S+)\]\. The number of parameters has (\S+) "
        r"\[(\S+) (\S+)\]\. .* `meco` may be anywhere from the first to the (\d+)th\. "
        r".*`meco.opt` is (\S+), and the lowest τ of `macs` is (\S+)\. ",
        text,
    )
    assert numbers is not None
    meco, params = one.loc["meco"], one.loc["params"]
    expected = [
        table["id"].nunique(),
        meco["networks"],
        *meco[["tau", "tau_low", "tau_high"]],
        *params[["tau", "tau_low", "tau_high"]],
        meco["rank_high"],
        overview.loc["meco.opt", "lowest_tau"],
        overview.loc["macs", "lowest_tau"],
    ]
    found = [float(number.replace(",", "")) for number in numbers.groups()]
    assert found == pytest.approx([float(value) for value in expected], abs=0.0051)
    assert [found[i] for i in (2, 5, 9, 10)] == pytest.approx([float(expected[i]) for i in (2, 5, 9, 10)], abs=0.00051)
    assert meco["rank"] == 1


def test_the_page_on_entries_has_the_networks_of_every_board(table: pd.DataFrame) -> None:
    text = (Path(zcbench.__file__).parent / "docs" / "enter.md").read_text("utf-8")
    said = {name: int(count.replace(",", "")) for name, count in re.findall(r"^\| `(\S+)` \| ([\d,]+) \|", text, re.M)}
    assert said == {title.rsplit(" v", 1)[0]: own["networks"].max() for title, own in table.groupby("title")}
