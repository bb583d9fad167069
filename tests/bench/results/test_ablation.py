from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from zcbench.bench.results.ablation import (
    ablate,
    chi_square_interval,
    deviation,
    drawn_by_seed,
    per_seed,
    spread,
    trends,
)
from zcbench.bench.results.board import Board
from zcbench.bench.results.pairs import between_seeds
from zcbench.bench.results.panel import Measured, Panel, Sample, measure
from zcbench.bench.stats.bootstrap import resamples
from zcbench.bench.study.recipe import Recipe, Work

N, SEEDS, SIZES = 80, 5, (1, 2, 4, 8, 16)
WEIGHTS = resamples(N, 150)


def panel(scores: np.ndarray, batch_size: int = 16, *, proxy: str = "p", up: bool = True) -> Panel:
    seeds = tuple(range(scores.shape[1]))
    return Panel(proxy, 1, batch_size, seeds, scores, np.ones(scores.shape, dtype=bool), up)


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    return np.random.RandomState(0).normal(size=N)


@pytest.fixture(scope="module")
def growing(truth: np.ndarray) -> list[Measured]:
    """One proxy whose noise falls as the batch grows."""
    random = np.random.RandomState(1)
    scores = {size: truth[:, None] + 3 / math.sqrt(size) * random.normal(size=(N, SEEDS)) for size in SIZES}
    return [measure(panel(scores[size], size), truth, WEIGHTS) for size in SIZES]


def test_a_standard_deviation_has_the_interval_of_textbooks() -> None:
    # python -c "from scipy.stats import chi2; print([(6 / chi2.ppf(p, 6)) ** .5 for p in (.975, .025)])"
    assert chi_square_interval(1.0, 7) == pytest.approx((0.644393407932372, 2.2020661128215577), rel=1e-12)
    assert chi_square_interval(0.0, 7) == (0, 0)
    assert np.isnan(chi_square_interval(math.nan, 7)).all()
    assert np.isnan(chi_square_interval(1.0, 1)).all()


def test_the_interval_of_a_standard_deviation_covers_it() -> None:
    random = np.random.RandomState(0)
    hits = [
        low <= 2 <= high
        for low, high in (chi_square_interval(deviation(2 * random.normal(size=7)), 7) for _ in range(2000))
    ]
    assert np.mean(hits) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 2, 4], np.std([1, 2, 4], ddof=1)), ([0.1] * 7, 0), ([1, math.nan, 3], np.std([1, 3], ddof=1))],
)
def test_deviation(values: list[float], expected: float) -> None:
    assert deviation(np.asarray(values)) == pytest.approx(expected, abs=0)


@pytest.mark.parametrize("values", [[], [1.0], [math.nan, 2.0], [math.nan] * 3])
def test_one_seed_has_no_deviation(values: list[float]) -> None:
    assert math.isnan(deviation(np.asarray(values)))


def test_the_spread_over_seeds(truth: np.ndarray) -> None:
    scores = truth[:, None] + np.random.RandomState(2).normal(size=(N, SEEDS))
    scores[:8, 2] = np.nan
    measured = measure(panel(scores), truth, WEIGHTS)
    found = spread(measured, list(between_seeds(measured.panel)))
    taus = []
    for column in scores.T:
        keep = np.isfinite(column)
        taus.append(scipy_stats.kendalltau(column[keep], truth[keep]).statistic)
    assert (found.seeds, found.networks) == (SEEDS, N)
    assert found.coverage == pytest.approx(1 - 8 / (N * SEEDS))
    assert found.tau == pytest.approx(np.mean(taus), rel=1e-12)
    assert found.tau_sd == pytest.approx(np.std(taus, ddof=1), rel=1e-9)
    assert (found.tau_min, found.tau_max) == pytest.approx((min(taus), max(taus)), rel=1e-12)
    assert found.tau_sd_low < found.tau_sd < found.tau_sd_high
    drawn = measured.drawn_tau.mean(0)
    assert (found.tau_low, found.tau_high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]))
    alike = [
        scipy_stats.kendalltau(scores[:, a], scores[:, b], nan_policy="omit").statistic
        for a in range(SEEDS)
        for b in range(a + 1, SEEDS)
    ]
    assert found.seed_tau == pytest.approx(np.mean(alike), rel=1e-9)
    rows = list(per_seed(measured))
    assert [row.seed for row in rows] == list(range(SEEDS))
    assert [row.n for row in rows] == [N, N, N - 8, N, N]
    assert [row.tau for row in rows] == pytest.approx(taus, rel=1e-12)
    assert all(row.tau_low < row.tau < row.tau_high for row in rows)


def test_what_has_no_chance_has_no_spread(truth: np.ndarray) -> None:
    measured = measure(panel(np.tile(truth[:, None] ** 3, SEEDS)), truth, WEIGHTS)
    found = spread(measured, list(between_seeds(measured.panel)))
    assert (found.tau_sd, found.tau_sd_low, found.tau_sd_high) == (0, 0, 0)
    assert (found.tau, found.seed_tau) == pytest.approx((1, 1))


@pytest.mark.parametrize("scores", [np.full((N, 3), np.nan), np.ones((N, 3))], ids=["NaN", "constant"])
def test_nothing_is_made_of_nothing(truth: np.ndarray, scores: np.ndarray) -> None:
    measured = measure(panel(scores), truth, WEIGHTS)
    found = spread(measured, list(between_seeds(measured.panel)))
    assert found.seeds == 0
    assert found.coverage == np.isfinite(scores).mean()
    for name in ("rho", "rho_low", "rho_sd", "rho_sd_low", "rho_min", "tau_max", "seed_rho", "seed_tau"):
        assert math.isnan(getattr(found, name)), name


def test_scores_that_nobody_asked_for_are_not_missing(truth: np.ndarray) -> None:
    """Half of the networks are the one seed's, half the other's."""
    asked = np.stack([np.arange(N) < N // 2, np.arange(N) >= N // 2], 1)
    scores = np.where(asked, truth[:, None], np.nan)
    measured = measure(Panel("p", 1, 16, (0, 1), scores, asked, True), truth, WEIGHTS)
    found = spread(measured, list(between_seeds(measured.panel)))
    assert (found.coverage, found.networks, found.seeds) == (1, N, 2)
    assert math.isnan(found.seed_tau)
    assert measured.n.tolist() == [N // 2, N // 2]


def test_the_trend_is_a_line_through_every_seed(growing: list[Measured]) -> None:
    *own, mean = trends(growing)
    doublings = np.log2(SIZES)
    taus = np.stack([m.tau for m in growing])
    slopes = np.polyfit(doublings, taus, 1)[0]
    assert [row.seed for row in own] == list(range(SEEDS))
    assert [row.tau for row in own] == pytest.approx(slopes)
    drawn = np.polyfit(doublings, np.stack([m.drawn_tau[1] for m in growing]), 1)[0]
    assert (own[1].tau_low, own[1].tau_high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]))
    assert math.isnan(own[1].tau_seed_low)
    assert mean.seed is None
    assert mean.batch_sizes == SIZES
    assert mean.tau == pytest.approx(slopes.mean())
    expected = scipy_stats.t.interval(0.95, SEEDS - 1, loc=slopes.mean(), scale=scipy_stats.sem(slopes))
    assert (mean.tau_seed_low, mean.tau_seed_high) == pytest.approx(expected)
    assert mean.tau_rising == int((slopes > 0).sum()) == SEEDS
    assert mean.tau_low > 0
    assert mean.flat()["seed"] == "mean"
    assert mean.flat()["batch_sizes"] == "1 2 4 8 16"


def test_a_trend_is_in_the_direction_that_the_proxy_claims(growing: list[Measured], truth: np.ndarray) -> None:
    turned = [measure(panel(-m.panel.scores, m.panel.batch_size, up=False), truth, WEIGHTS) for m in growing]
    assert [row.tau for row in trends(turned)] == pytest.approx([row.tau for row in trends(growing)])


def test_batch_sizes_without_a_coefficient_are_left_out_and_seen_to_be(
    growing: list[Measured], truth: np.ndarray
) -> None:
    scores = growing[0].panel.scores.copy()
    scores[:, 3] = np.nan
    rows = list(trends([measure(panel(scores, 1), truth, WEIGHTS), *growing[1:]]))
    assert {row.batch_sizes for row in rows} == {SIZES[1:]}
    assert len(rows) == SEEDS + 1
    assert list(trends(growing[:1])) == []
    nothing = [measure(panel(np.full((N, 2), np.nan), size), truth, WEIGHTS) for size in SIZES]
    assert list(trends(nothing)) == []


def test_a_whole_ablation(growing: list[Measured], truth: np.ndarray) -> None:
    params = measure(panel(np.tile(truth[:, None], SEEDS), 0, proxy="params"), truth, WEIGHTS)
    everything = [*growing, params]
    sample = Sample(tuple(map(str, range(N))), truth, WEIGHTS, tuple(m.panel for m in everything))
    found = ablate([], sample)
    assert len(found.spreads) == len(SIZES) + 1
    assert len(found.seeds) == SEEDS * (len(SIZES) + 1)
    assert {(row.proxy, row.seed) for row in found.trends} == {("p", seed) for seed in [*range(SEEDS), None]}
    pairs = [(d.first.batch_size, d.second.batch_size) for d in found.differences]
    assert pairs == [(a, b) for i, a in enumerate(SIZES) for b in SIZES[i + 1 :]]
    assert found.differences[3].tau.difference < 0
    kinds = [row.kind for row in found.agreements]
    assert kinds.count("seeds") == (len(SIZES) + 1) * SEEDS * (SEEDS - 1) // 2
    assert kinds.count("batch sizes") == len(pairs)
    assert all(isinstance(v, str | int | float) for row in (*found.spreads, *found.seeds) for v in vars(row).values())


def board(seed: int, networks: str, **changes: object) -> Board:
    settings: dict[str, object] = {
        "space": "s",
        "dataset": "d",
        "truth": "d/test",
        "label": "made up",
        "protocol": "2",
        "device": "cpu",
        "torch": "2.13.0",
        "accuracies": {name: float(ord(name)) for name in networks},
        "work": (Work(seed, 16, ("p",)),),
        "batches": {(16, seed): "h"},
        "versions": {"p": 1},
        "lower": (),
        "aggregates": (),
        "batch_sizes": (16,),
        "resamples": 5,
    }
    return Board("s-d v1", "n", Recipe(**(settings | changes)), {}, ())  # type: ignore[arg-type]


def test_seeds_that_drew_their_networks_are_one_experiment() -> None:
    boards = [board(1, "bcd"), board(0, "abc"), board(2, "abd")]
    (group,) = drawn_by_seed(boards)
    assert [b.recipe.seeds for b in group] == [[0], [1], [2]]
    truth = np.arange(4.0)
    found = ablate(group, Sample(tuple("abcd"), truth, resamples(4, 5), ()))
    assert found.name == "s on d, 3 samples of 3 networks, each with a seed of its own, d/test"
    assert found.title == "s-d v1"
    assert len(found.id) == 8
    assert found.id not in {b.id for b in group}


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([], id="one board"),
        pytest.param([board(0, "bcd")], id="the same seed"),
        pytest.param([board(1, "abc")], id="the same networks"),
        pytest.param([board(1, "bcde")], id="more networks"),
        pytest.param([board(1, "bcd", device="cuda")], id="another device"),
        pytest.param([board(1, "bcd", truth="d/valid")], id="other accuracies"),
        pytest.param([board(1, "bcd", batch_sizes=())], id="other batch sizes"),
        pytest.param([board(1, "bcd", work=(Work(1, 16, ("p",)), Work(2, 16, ("p",))))], id="two seeds"),
    ],
)
def test_boards_that_are_no_experiment(others: list[Board]) -> None:
    assert drawn_by_seed([board(0, "abc"), *others]) == []
