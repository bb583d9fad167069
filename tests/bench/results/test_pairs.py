from __future__ import annotations

import dataclasses
import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats as scipy_stats
from zcbench.bench.results.board import Board
from zcbench.bench.results.pairs import (
    across,
    agree,
    between_batch_sizes,
    between_proxies,
    between_seeds,
    compare,
    families,
)
from zcbench.bench.results.panel import Panel, Sample, measure
from zcbench.bench.stats.bootstrap import resamples
from zcbench.bench.stats.significance import holm
from zcbench.bench.stats.top import choose
from zcbench.bench.study.recipe import Recipe, Work

N = 60


def panel(scores: np.ndarray, proxy: str = "p", batch_size: int = 16, *, up: bool = True) -> Panel:
    seeds = tuple(range(scores.shape[1]))
    return Panel(proxy, 1, batch_size, seeds, scores, np.ones(scores.shape, dtype=bool), up)


@pytest.fixture
def made() -> tuple[Sample, list[Panel]]:
    random = np.random.RandomState(1)
    truth = random.normal(size=N)
    panels = [
        panel(truth[:, None] + noise * random.normal(size=(N, 2)), proxy)
        for proxy, noise in (("good", 0.3), ("fair", 1.0), ("poor", 4.0))
    ]
    return Sample(tuple(map(str, range(N))), truth, resamples(N, 200), tuple(panels)), panels


def tau(column: np.ndarray, truth: np.ndarray) -> float:
    return float(scipy_stats.kendalltau(column, truth).statistic)


def test_differences_are_paired_on_the_same_resamples(made: tuple[Sample, list[Panel]]) -> None:
    sample, panels = made
    measured = [measure(p, sample.truth, sample.weights) for p in panels]
    found = compare(measured, sample.truth, sample.weights)
    assert [(c.first.proxy, c.second.proxy) for c in found] == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    good, fair = (np.mean([tau(column, sample.truth) for column in p.scores.T]) for p in panels[:2])
    first = found[0]
    assert (first.tau.first, first.tau.second) == pytest.approx((good, fair), rel=1e-12)
    assert first.tau.difference == pytest.approx(good - fair, rel=1e-9)
    drawn = measured[0].drawn_tau.mean(0) - measured[1].drawn_tau.mean(0)
    assert (first.tau.low, first.tau.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]))
    assert [c.tau.p_holm for c in found] == pytest.approx(holm(np.asarray([c.tau.p_normal for c in found])))
    assert [c.rho.p_holm for c in found] == pytest.approx(holm(np.asarray([c.rho.p_normal for c in found])))
    assert first.tau.p_holm < 0.05
    flat = first.flat()
    assert (flat["first"], flat["second"], flat["n"]) == ("good", "fair", N)
    assert flat["tau_p_holm"] == first.tau.p_holm
    assert all(isinstance(value, str | int | float) for value in flat.values())


def test_pairs_are_compared_on_the_networks_that_both_scored(made: tuple[Sample, list[Panel]]) -> None:
    sample, panels = made
    gaps = panels[1].scores.copy()
    gaps[:20, 0] = np.nan
    gaps[10:25, 1] = np.inf
    holed = dataclasses.replace(panels[1], scores=gaps)
    measured = [measure(p, sample.truth, sample.weights) for p in (panels[0], holed, panels[2])]
    first, untouched, _ = compare(measured, sample.truth, sample.weights)
    keep = np.isfinite(gaps)
    expected = np.mean([tau(panels[0].scores[keep[:, s], s], sample.truth[keep[:, s]]) for s in (0, 1)])
    assert first.n == N - 10
    assert first.tau.first == pytest.approx(expected, rel=1e-12)
    assert untouched.tau.first == pytest.approx(float(measured[0].tau.mean()), rel=1e-12)
    assert untouched.n == N


def test_lower_may_be_better(made: tuple[Sample, list[Panel]]) -> None:
    sample, (good, fair, _) = made
    down = dataclasses.replace(fair, scores=-fair.scores, higher_is_better=False)
    up, turned = (
        compare([measure(p, sample.truth, sample.weights) for p in (good, other)], sample.truth, sample.weights)[0]
        for other in (fair, down)
    )
    assert turned.tau.difference == pytest.approx(up.tau.difference)
    assert turned.tau.second > 0
    assert turned.rho.p_holm == pytest.approx(up.rho.p_holm)


def test_what_has_no_scores_stays_nan_and_counts_as_a_test(made: tuple[Sample, list[Panel]]) -> None:
    sample, (good, fair, _) = made
    nothing = panel(np.full((N, 2), np.nan), "nothing")
    measured = [measure(p, sample.truth, sample.weights) for p in (good, fair, nothing)]
    first, *others = compare(measured, sample.truth, sample.weights)
    assert [c.n for c in others] == [0, 0]
    assert all(math.isnan(c.tau.difference) and math.isnan(c.tau.p_holm) for c in others)
    assert first.tau.p_holm == pytest.approx(min(1, 3 * first.tau.p_normal))
    assert compare(measured[:1], sample.truth, sample.weights) == []


def test_families_share_a_batch_size() -> None:
    scores = np.arange(3.0)[:, None]
    several = [panel(scores, "a", 1), panel(scores, "a", 4), panel(scores, "b", 4), panel(scores, "params", 0)]
    truth = np.arange(3.0)
    sample = Sample(("x", "y", "z"), truth, resamples(3, 5), tuple(several))
    found = families(sample)
    names = {size: [m.panel.proxy for m in own] for size, own in found}
    # b has one batch size alone, as of its protocol.
    assert names == {"1": ["a", "b", "params"], "4": ["a", "b", "params"]}
    alone = Sample(sample.networks, truth, sample.weights, tuple(several[1:]))
    assert [(size, len(own)) for size, own in families(alone)] == [("", 3)]


def test_agreement_is_what_scipy_says(made: tuple[Sample, list[Panel]]) -> None:
    sample, panels = made
    first = next(between_proxies(sample, panels))
    taus = [tau(panels[0].scores[:, s], panels[1].scores[:, s]) for s in (0, 1)]
    assert (first.kind, first.first, first.second, first.n) == ("proxies", "good", "fair", N)
    assert first.tau == pytest.approx(np.mean(taus), rel=1e-12)
    (seeds,) = between_seeds(panels[1])
    assert (seeds.kind, seeds.proxy, seeds.first, seeds.second) == ("seeds", "fair", "0", "1")
    assert seeds.tau == pytest.approx(tau(*panels[1].scores.T), rel=1e-12)
    other = dataclasses.replace(panels[0], batch_size=32, scores=panels[0].scores + 1)
    (sizes,) = between_batch_sizes([panels[0], other])
    assert (sizes.kind, sizes.proxy, sizes.first, sizes.second) == ("batch sizes", "good", "16", "32")
    assert (sizes.rho, sizes.tau) == pytest.approx((1, 1))


def test_agreement_is_in_the_direction_that_proxies_claim(made: tuple[Sample, list[Panel]]) -> None:
    sample, (good, fair, _) = made
    down = dataclasses.replace(fair, scores=-fair.scores, higher_is_better=False)
    up, turned = (next(between_proxies(sample, [good, other])) for other in (fair, down))
    assert turned.tau == pytest.approx(up.tau)


def test_agreement_of_every_two_is_on_the_networks_that_both_scored(made: tuple[Sample, list[Panel]]) -> None:
    sample, (good, fair, poor) = made
    gaps = fair.scores.copy()
    gaps[:20, 0] = np.nan
    gaps[10:25, 1] = np.inf
    holed = dataclasses.replace(fair, proxy="holed", scores=gaps)
    alone = dataclasses.replace(poor, proxy="alone", seeds=(1,), scores=poor.scores[:, 1:], higher_is_better=False)
    other = dataclasses.replace(poor, proxy="other", seeds=(7,), scores=poor.scores[:, 1:])
    panels = [good, holed, alone, other]
    for a, b, found in zip(*zip(*combinations(panels, 2), strict=True), between_proxies(sample, panels), strict=True):
        columns = [(a.scores[:, a.seeds.index(s)], b.scores[:, b.seeds.index(s)]) for s in a.seeds if s in b.seeds]
        n, rho, tau_ = agree(columns, a.sign * b.sign)
        assert (found.first, found.second, found.n) == (a.proxy, b.proxy, n)
        assert np.array_equal([found.rho, found.tau], [rho, tau_], equal_nan=True)


def test_agreement_of_nothing() -> None:
    assert agree([])[0] == 0
    n, rho, tau_ = agree([(np.asarray([1.0, np.nan, 2, 3]), np.asarray([1.0, 2, np.inf, 4]))])
    assert n == 2
    assert math.isnan(rho)
    assert math.isnan(tau_)


def board(dataset: str, truth: str, sample: Sample) -> tuple[Board, Sample]:
    recipe = Recipe(
        space="s",
        dataset=dataset,
        truth=truth,
        label="made up",
        protocol="2",
        device="cpu",
        torch="2",
        accuracies=dict(zip(sample.networks, sample.truth.tolist(), strict=True)),
        work=(Work(0, 16, ("p",)),),
        batches={(16, 0): "h"},
        versions={"p": 1},
        lower=(),
        aggregates=(),
        batch_sizes=(16,),
        resamples=5,
    )
    return Board(f"s-{dataset} v1", "n", recipe, {}, ()), sample


def test_a_choice_by_one_data_set_is_looked_up_on_another() -> None:
    random = np.random.RandomState(0)
    names = tuple(map(str, range(N)))
    here, there = random.normal(size=(2, N))
    weights = resamples(N, 5)
    scores = [here[:, None] + random.normal(size=(N, 2)), there[:, None] + random.normal(size=(N, 2))]
    order = random.permutation(N)  # of the other board's networks
    one = board("d1", "d1/test", Sample(names, here, weights, (panel(scores[0]),)))
    other = board(
        "d2",
        "d2/test",
        Sample(tuple(names[i] for i in order), there[order], weights, (panel(scores[1][order]),)),
    )
    agreed, transferred = across([one, other])
    truths, data_sets = (row for _, row in agreed)
    assert (truths.kind, truths.first, truths.second) == ("truths", "d1/test", "d2/test")
    assert truths.tau == pytest.approx(tau(here, there), rel=1e-12)
    assert (data_sets.kind, data_sets.proxy, data_sets.first, data_sets.second) == ("data sets", "p", "d1", "d2")
    taus = [tau(a, b) for a, b in zip(scores[0].T, scores[1].T, strict=True)]
    assert data_sets.tau == pytest.approx(np.mean(taus), rel=1e-12)
    by = {(t.source.recipe.dataset, t.truth): t for t in transferred}
    assert set(by) == {(a, f"{b}/test") for a in ("d1", "d2") for b in ("d1", "d2")}
    bests = [there[np.argsort(-column)[:10]].max() for column in scores[0].T]
    found = by["d1", "d2/test"]
    assert (found.k, found.n) == (10, N)
    assert found.best == np.mean(bests)
    assert found.regret == pytest.approx(there.max() - np.mean(bests))
    for (source, target), value in by.items():
        columns, truth = scores[source == "d2"], there if target == "d2/test" else here
        choice = choose(columns, truth, 10)
        assert (value.best, value.regret, value.rank) == (choice.best, choice.regret, choice.rank)
        assert value.percentile == choice.percentile
        assert value.tau == pytest.approx(np.mean([tau(c, truth) for c in columns.T]), rel=1e-12)
        rhos = [scipy_stats.spearmanr(c, truth).statistic for c in columns.T]
        assert value.rho == pytest.approx(np.mean(rhos), rel=1e-12)
    assert "source" not in found.flat()


def test_boards_on_other_networks_say_nothing_of_each_other() -> None:
    weights, truth = resamples(4, 5), np.arange(4.0)
    scores = panel(np.arange(4.0)[:, None])
    one = board("d1", "d1/test", Sample(("a", "b", "c", "d"), truth, weights, (scores,)))
    other = board("d2", "d2/test", Sample(("a", "b", "c", "e"), truth, weights, (scores,)))
    assert across([one, other]) == ([], [])
    assert across([one]) == ([], [])
    assert across([]) == ([], [])


def test_boards_that_share_some_networks_are_compared_on_those() -> None:
    random = np.random.RandomState(1)
    names, truth = tuple(map(str, range(20))), random.normal(size=20)
    scores, weights = random.normal(size=(20, 1)), resamples(20, 5)
    large = board("d1", "d1/test", Sample(names, truth, weights, (panel(scores),)))
    few = slice(4, 16)
    other = random.normal(size=12)
    small = board("d2", "d2/test", Sample(names[few], other, resamples(12, 5), (panel(scores[few] ** 3),)))
    agreed, transferred = across([large, small])
    assert [(row.kind, row.n) for _, row in agreed] == [("truths", 12), ("data sets", 12)]
    assert [row.tau for _, row in agreed] == pytest.approx([tau(truth[few], other), 1], rel=1e-12)
    found = {(t.source.recipe.dataset, t.truth): t for t in transferred}
    assert {key: t.n for key, t in found.items()} == {
        ("d1", "d1/test"): 20,
        ("d1", "d2/test"): 12,
        ("d2", "d1/test"): 12,
        ("d2", "d2/test"): 12,
    }
    assert found["d1", "d2/test"].tau == pytest.approx(tau(scores[few, 0], other), rel=1e-12)
