from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from zcbench.bench.results.board import boards
from zcbench.bench.results.pairs import compare
from zcbench.bench.results.panel import of_recipe
from zcbench.bench.results.published.sources import read, write_scores
from zcbench.bench.results.ranking import select
from zcbench.bench.results.rivals import Against, against, boards_on, lowest
from zcbench.bench.scoring.runner import run
from zcbench.bench.scoring.store import Store
from zcbench.bench.stats.bootstrap import resamples
from zcbench.bench.stats.correlation import correlate_seeds
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import resolve
from zcbench.errors import ConfigError, UnknownNameError


def study(out: Path, **changes: object) -> None:
    settings: dict[str, object] = {
        "dataset": "cifar10-samples",
        "accuracy": "analog-baseline",
        "proxies": ["naswot", "l2_norm", "conv_count"],
        "sample": 12,
        "batch_sizes": [2],
        "resamples": 50,
        "tracker": "none",
    }
    run(resolve(StudyConfig(out=str(out), **(settings | changes))))  # type: ignore[arg-type]


def compared(store: Store, first: str, others: list[str], **only: list[str]) -> list[Against]:
    return against(store.folder, first, others, boards_on(store.folder, **only))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("rivals") / "results"
    study(folder)
    study(folder, proxies=["conv_count", "relu_count"], sample=5)
    return Store(folder)


def test_the_differences_are_those_of_the_leaderboard_and_holm_is_over_the_pairs_asked(store: Store) -> None:
    (board,) = [board for board in boards(store.folder) if "naswot" in board.recipe.versions]
    sample = of_recipe(board.recipe, select(store, board.recipe))
    every = {(c.first.proxy, c.second.proxy): c for c in compare(sample.measured, sample.truth, sample.weights)}
    (found,) = compared(store, "l2_norm", ["naswot", "conv_count"])
    assert [c.second.proxy for c in found.comparisons] == ["naswot", "conv_count"]
    to_naswot, to_count = found.comparisons
    assert to_naswot.tau.difference == every["l2_norm", "naswot"].tau.difference
    assert (to_naswot.tau.low, to_naswot.tau.p) == (
        every["l2_norm", "naswot"].tau.low,
        every["l2_norm", "naswot"].tau.p,
    )
    # The other order of a pair has the opposite sign.
    assert to_count.tau.difference == -every["conv_count", "l2_norm"].tau.difference
    # Holm over two p-values: the smaller is doubled, and the larger is not below it.
    small, large = sorted((to_naswot.tau, to_count.tau), key=lambda d: d.p_normal)
    assert small.p_holm == pytest.approx(min(1, 2 * small.p_normal))
    assert large.p_holm == pytest.approx(min(1, max(2 * small.p_normal, large.p_normal)))


def test_baselines_are_known_without_scores(store: Store) -> None:
    (found,) = compared(store, "naswot", ["params", "macs", "random"])
    (board,) = [board for board in boards(store.folder) if "naswot" in board.recipe.versions]
    np.testing.assert_array_equal(found.comparisons[0].second.scores[:, 0], board.sizes["params"])
    assert len(compared(store, "params", ["macs"])) == 2


def test_every_board_that_has_all_of_them_counts(store: Store) -> None:
    assert len(compared(store, "conv_count", ["params"])) == 2
    assert len(compared(store, "conv_count", ["relu_count"])) == 1
    assert len(compared(store, "conv_count", ["params"], spaces=["nb201"], datasets=["cifar10-samples"])) == 2
    with pytest.raises(ConfigError, match="no board has all of naswot, relu_count"):
        compared(store, "naswot", ["relu_count"])
    with pytest.raises(ConfigError, match="expected runs of nb101 on any data set, got none"):
        compared(store, "naswot", ["params"], spaces=["nb101"])
    with pytest.raises(ConfigError, match="expected runs of nb101 too, got none"):
        compared(store, "naswot", ["params"], spaces=["nb201", "nb101"])


def test_what_cannot_be_compared_is_named(store: Store) -> None:
    with pytest.raises(UnknownNameError, match="did you mean naswot"):
        compared(store, "naswott", ["params"])
    with pytest.raises(
        UnknownNameError, match=r"grasp has no scores in .*: score it first: zcbench run --proxies grasp"
    ):
        compared(store, "naswot", ["grasp"])
    with pytest.raises(ConfigError, match="other than naswot"):
        compared(store, "naswot", ["naswot"])
    with pytest.raises(ConfigError, match="got params twice"):
        compared(store, "naswot", ["params", "macs", "params"])
    with pytest.raises(ConfigError, match="got none"):
        compared(store, "naswot", [])


def test_batch_sizes_are_compared_one_by_one(tmp_path: Path) -> None:
    study(tmp_path / "results", proxies=["naswot", "conv_count", "meco.opt"], batch_sizes=[2, 4], sample=10)
    (found,) = compared(Store(tmp_path / "results"), "naswot", ["meco.opt", "params"])
    pairs = [(c.first.batch_size, c.second.proxy, c.second.batch_size) for c in found.comparisons]
    assert pairs == [(2, "meco.opt", 2), (2, "params", 0), (4, "meco.opt", 4), (4, "params", 0)]


def test_an_aggregate_is_compared_with_its_members(tmp_path: Path) -> None:
    study(tmp_path / "results", proxies=["vote"], sample=10)
    (found,) = compared(Store(tmp_path / "results"), "vote", ["snip"])
    assert [c.second.proxy for c in found.comparisons] == ["snip"]


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("lowest") / "results"
    study(folder, proxies=["naswot", "l2_norm"])
    study(folder, proxies=["naswot", "l2_norm"], sample=14, sample_seed=1)
    return Store(folder)


def test_the_lowest_tau_is_that_of_the_worst_board_of_each_proxy(spaces: Store) -> None:
    found = compared(spaces, "naswot", ["l2_norm", "params"])
    rows = lowest(found)
    assert [(row.first, row.second) for row in rows] == [("naswot", "l2_norm"), ("naswot", "params")]
    for row, place in zip(rows, range(2), strict=True):
        own = [each.comparisons[place].tau for each in found]
        assert row.tau.first == min(tau.first for tau in own)
        assert row.tau.second == min(tau.second for tau in own)
        assert row.first_on == found[int(np.argmin([tau.first for tau in own]))].board
        assert row.second_on == found[int(np.argmin([tau.second for tau in own]))].board
        assert row.tau.low <= row.tau.difference <= row.tau.high
    # The resamples of each board are in an order of their own, so that boards are independent of each other.
    orders = [1 + np.random.RandomState(int(each.board.id, 16)).permutation(50) for each in found]
    first, second = (
        {name: np.stack(tau)[:, order] for name, tau in each.tau.items()}
        for each, order in zip(found, orders, strict=True)
    )
    drawn = {name: np.minimum(first[name], second[name]) for name in first}
    assert lowest(found[::-1]) == rows
    low, high = np.nanquantile(drawn["params"][0] - drawn["params"][1], [0.025, 0.975])
    assert (rows[1].tau.low, rows[1].tau.high) == (pytest.approx(low), pytest.approx(high))


def test_one_board_or_a_census_or_several_batch_sizes_have_no_lowest_tau(spaces: Store, tmp_path: Path) -> None:
    found = compared(spaces, "naswot", ["params"])
    assert lowest(found)
    assert lowest(found[:1]) == []
    assert lowest([dataclasses.replace(each, census=True) for each in found]) == []
    study(tmp_path, proxies=["naswot"], batch_sizes=[2, 3])
    study(tmp_path, proxies=["naswot"], batch_sizes=[2, 3], sample=14)
    assert lowest(compared(Store(tmp_path), "naswot", ["params"])) == []


def test_the_interval_of_the_lowest_tau_covers_the_truth(spaces: Store) -> None:
    # Two proxies on two spaces, each with its lowest tau on another one. Normal scores with correlation r have a tau of
    # 2/pi asin r.
    example = [each.board for each in compared(spaces, "naswot", ["params"])]
    r = {"mine": (0.9, 0.6), "other": (0.3, 0.9)}
    truth = 2 / np.pi * (np.arcsin(0.6) - np.arcsin(0.3))
    draw = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        found = []
        for place in range(2):
            accuracy = draw.standard_normal(80)
            weights = resamples(80, 300, seed=trial)
            tau = {}
            for name, both in r.items():
                noise = draw.standard_normal(80)
                scores = both[place] * accuracy + np.sqrt(1 - both[place] ** 2) * noise
                own = correlate_seeds(scores[:, None], accuracy, weights)
                tau[name] = np.concatenate([own.tau, own.drawn_tau[0]])
            pair = {"other": (tau["mine"], tau["other"])}
            found.append(Against(example[place], "mine", census=False, comparisons=(), tau=pair))
        (row,) = lowest(found)
        covered += row.tau.low <= truth <= row.tau.high
    assert 0.9 <= covered / 200 <= 0.99


def test_a_leaderboard_is_compared_as_the_results_it_was_made_of(store: Store, tmp_path: Path) -> None:
    tmp_path.joinpath("board").mkdir()
    write_scores(tmp_path / "board", read(store.folder))
    there = against(tmp_path / "board", "l2_norm", ["naswot", "params"], boards_on(tmp_path / "board"))
    here = compared(store, "l2_norm", ["naswot", "params"])
    assert [each.board.id for each in there] == [each.board.id for each in here]
    for mine, theirs in zip(here, there, strict=True):
        assert [c.flat() for c in mine.comparisons] == [c.flat() for c in theirs.comparisons]


def test_all_numbers_of_a_pair_are_of_the_networks_that_both_scored(tmp_path: Path) -> None:
    study(tmp_path, proxies=["naswot", "l2_norm"], sample=20, sample_of={"naswot": 12})
    study(tmp_path, proxies=["naswot", "l2_norm"], sample=20, sample_seed=1, sample_of={"naswot": 14})
    found = compared(Store(tmp_path), "l2_norm", ["naswot", "params"])
    for each in found:
        short, whole = each.comparisons
        assert (short.n, whole.n) == (each.board.recipe.sample_of["naswot"], 20)
        assert each.tau["naswot"][0][0] == short.tau.first != whole.tau.first == each.tau["params"][0][0]
    for place, row in enumerate(lowest(found)):
        assert row.tau.first == min(each.comparisons[place].tau.first for each in found)


def test_fewer_than_ten_networks_have_no_answer(tmp_path: Path) -> None:
    for seed in (0, 1):
        study(tmp_path, proxies=["naswot", "l2_norm"], sample=12, sample_seed=seed, sample_of={"naswot": 9})
    found = compared(Store(tmp_path), "l2_norm", ["naswot", "params"])
    for each in found:
        short, whole = each.comparisons
        assert (short.n, whole.n) == (9, 12)
        assert np.isnan([short.tau.first, short.tau.difference, short.tau.p_holm, short.rho.second]).all()
        assert not np.isnan(whole.tau.difference)
    first, second = lowest(found)
    assert np.isnan(first.tau.difference)
    assert not np.isnan(second.tau.difference)
