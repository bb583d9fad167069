"""Tests of the problem of aggregates, on made-up pools whose best aggregate is known."""

import dataclasses
import random

import numpy as np
import pytest
from scipy.stats import kendalltau, rankdata
from zcbench.evolution.engine.config import EngineConfig
from zcbench.evolution.engine.generations import evolve
from zcbench.evolution.engine.pools import PoolProblem, Table, outcome, outcomes, run, scaled, vocabulary
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.variation import Trees
from zcbench.evolution.study.found import Found
from zcbench.proxies import PROXIES

WORDS = vocabulary(["params", "naswot", "snip"])


def pool(name="made", n=120, seed=0, noise=0.05):
    """A table whose accuracies follow rank(params) * rank(naswot); snip is noise."""
    draw = np.random.default_rng(seed)
    scores = {proxy: draw.normal(size=(n, 1)) for proxy in ("params", "naswot", "snip")}
    ranks = [rankdata(scores[proxy][:, 0]) / n for proxy in ("params", "naswot")]
    return Table(name, scores, ranks[0] * ranks[1] + noise * draw.normal(size=n))


def test_ranks_are_relative_and_means_over_seeds():
    columns = np.array([[1.0, 30.0], [2.0, 10.0], [2.0, 20.0]])
    np.testing.assert_allclose(
        scaled(columns, "ranks"), [(1 / 3 + 1) / 2, (2.5 / 3 + 1 / 3) / 2, (2.5 / 3 + 2 / 3) / 2]
    )
    np.testing.assert_allclose(scaled(columns, "logs"), np.log(columns).mean(1))
    np.testing.assert_allclose(scaled(-columns, "logs"), -columns.mean(1))


def test_a_program_is_what_its_text_says():
    made = pool()
    values = PoolProblem([made], "ranks").values[0]
    got = run(parse(WORDS, "div(mul(params, add(naswot, 0.5)), max(snip, 2))"), values)
    expected = values["params"] * (values["naswot"] + 0.5) / np.maximum(values["snip"], 2)
    np.testing.assert_array_equal(got, expected)


def test_fitness_is_the_least_tau_of_all_pools():
    pools = [pool("a"), pool("b", seed=1)]
    problem = PoolProblem(pools, "ranks")
    program = parse(WORDS, "mul(params, naswot)")
    taus = [kendalltau(run(program, v), p.truth).statistic for v, p in zip(problem.values, pools, strict=True)]
    assert problem.fitness([program])[0][0] == pytest.approx(min(taus), abs=1e-12)
    both = PoolProblem(pools, "ranks", ("tau", "top"), 0.2)
    assert both.objectives == 2
    best = [np.argsort(-p.truth)[:24] for p in pools]
    tops = [
        kendalltau(run(program, v)[b], p.truth[b]).statistic
        for v, p, b in zip(problem.values, pools, best, strict=True)
    ]
    assert both.fitness([program])[0] == pytest.approx((min(taus), min(tops)), abs=1e-12)


def test_programs_that_do_not_vary_or_are_not_finite_are_not_valid():
    problem = PoolProblem([pool()], "ranks")
    texts = ["div(params, sub(snip, snip))", "add(2, 0.5)", "mul(params, naswot)"]
    assert problem.valid([parse(WORDS, t) for t in texts]) == [False, False, True]


def test_the_search_finds_the_product(tmp_path):
    fit, test = pool(n=300).halves(0)
    config = EngineConfig(
        generations=10, population=40, parents=20, min_height=1, max_height=2, height_limit=4, parsimony=0.002
    )
    state = evolve(PoolProblem([fit], "ranks"), Trees(WORDS), config, tmp_path, {})
    assert state.hall[0][0] == "mul(naswot, params)"
    found = outcomes({"evolved": parse(WORDS, state.hall[0][0])}, [fit], [test], "ranks")
    assert [o.pool for o in found] == ["made, fitted on"] * 3 + ["made, tested on"] * 3
    evolved, single, best = found[3:]
    assert evolved.tau > max(single.tau, best.tau) + 0.1
    assert single.what in {"params", "naswot"}


def test_the_best_single_proxy_stands_beside_by_every_objective():
    fit, test = pool(n=200).halves(0)
    found = outcomes({}, [fit], [test], "ranks", ("tau", "top"), 0.2)
    assert [o.chosen for o in found[:3]] == [
        "best single proxy of the pools fitted on",
        "best single proxy of the pools fitted on by top",
        "best single proxy of this pool",
    ]
    chosen = np.argsort(-fit.truth, kind="stable")[:20]
    tops = {name: kendalltau(v[chosen], fit.truth[chosen]).statistic for name, v in fit.values("ranks").items()}
    assert found[1].what == found[4].what == max(tops, key=tops.get)


def test_halves_share_no_network_and_rank_among_themselves():
    whole = pool(n=101)
    fit, test = whole.halves(3)
    assert sorted([*fit.truth, *test.truth]) == sorted(whole.truth)
    assert (len(fit.truth), len(test.truth)) == (50, 51)
    assert fit.values("ranks")["snip"].max() == 1
    np.testing.assert_array_equal(whole.halves(3)[0].truth, fit.truth)
    assert not np.array_equal(whole.halves(4)[0].truth, fit.truth)


def test_halves_share_no_class_and_intervals_draw_classes():
    whole = pool(n=90)
    classes = [n // 3 for n in range(90)]  # three networks each
    whole = dataclasses.replace(whole, networks=[f"net {n}" for n in range(90)], classes=classes)
    fit, test = whole.halves(0)
    assert not set(fit.classes) & set(test.classes)
    assert (len(set(fit.classes)), len(set(test.classes))) == (15, 15)
    assert [int(name.split()[1]) // 3 for name in test.networks] == test.classes
    # a resample of thirty classes is another one than of ninety networks
    values = whole.values("ranks")
    by_class, by_network = (
        outcome("params", "given", made, values["params"], values["snip"], values["naswot"])
        for made in (whole, dataclasses.replace(whole, classes=[]))
    )
    assert by_class.tau == by_network.tau
    assert (by_class.tau_low, by_class.tau_high) != (by_network.tau_low, by_network.tau_high)


def test_a_program_may_read_only_so_many_proxies():
    trees = [parse(WORDS, text) for text in ("params", "add(params, mul(2, snip))")]
    assert PoolProblem([pool()], "ranks", members=1).valid(trees) == [True, False]
    assert PoolProblem([pool()], "ranks", members=2).valid(trees) == [True, True]


def test_outcomes_have_intervals_about_them():
    made = pool()
    values = PoolProblem([made], "ranks").values[0]
    got = outcome("params", "given", made, values["params"], values["snip"], values["naswot"])
    assert got.tau == pytest.approx(kendalltau(values["params"], made.truth).statistic, abs=1e-12)
    assert got.tau_low < got.tau < got.tau_high
    best = np.argsort(-made.truth)[:12]
    assert got.tau_top == pytest.approx(kendalltau(values["params"][best], made.truth[best]).statistic, abs=1e-12)
    assert got.tau_top_low <= got.tau_top <= got.tau_top_high
    assert got.gain == pytest.approx(got.tau - kendalltau(values["snip"], made.truth).statistic, abs=1e-12)
    naswot = kendalltau(values["naswot"][best], made.truth[best]).statistic
    assert got.gain_top == pytest.approx(got.tau_top - naswot, abs=1e-12)
    assert got.gain_low < got.gain < got.gain_high
    assert got.gain_top_low <= got.gain_top <= got.gain_top_high


def test_a_gain_is_paired():
    made = pool(n=300)
    values = PoolProblem([made], "ranks").values[0]
    close = values["params"] + 1e-3 * values["snip"]
    got = outcome("close", "given", made, close, values["params"], values["params"])
    assert got.gain_high - got.gain_low < 0.2 * (got.tau_high - got.tau_low)
    same = outcome("params", "given", made, values["params"], values["params"], values["params"])
    assert (same.gain, same.gain_low, same.gain_high, same.gain_top) == (0, 0, 0, 0)


def test_a_found_aggregate_is_one_like_any_other():
    program = parse(WORDS, "mul(params, min(naswot, 0.5))")
    card = Found(name="made", program=str(program), over="ranks").proxy()
    assert card.members == ("params", "naswot")
    scores = {"params": np.array([3.0, 1.0, np.nan, 2.0]), "naswot": np.array([-1.0, 5.0, 2.0, np.nan])}
    got = card.score(scores)
    np.testing.assert_allclose(got[:2], [1 * 0.5, 0.5 * 0.5])
    assert np.isnan(got[2:]).all()
    lower = next(name for name, proxy in PROXIES.items() if proxy.direction == "lower")
    turned = Found(name="turned", program=f"add({lower}, {lower})", over="ranks").proxy()
    np.testing.assert_allclose(turned.score({lower: np.array([1.0, 2.0])}), [2, 1])


def test_same_seed_same_search(tmp_path):
    config = EngineConfig(generations=3, population=20, parents=8, min_height=1, max_height=3, height_limit=5)
    halls = []
    for name in "ab":
        (tmp_path / name).mkdir()
        halls.append(evolve(PoolProblem([pool()], "ranks"), Trees(WORDS), config, tmp_path / name, {}).hall)
    assert halls[0] == halls[1]
    assert PoolProblem([pool()], "ranks").draw(random.Random(0)) is None
