"""Tests of the weighted sum that aggregates are compared with, on made-up pools with a known best sum."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import kendalltau, rankdata
from zcbench.evolution.engine.linear import PENALTY, weighted_sum
from zcbench.evolution.engine.pools import Table, is_constant, run, vocabulary
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.programs import WORD


def table(weights, n=400, seed=0, noise=0.1):
    draw = np.random.default_rng(seed)
    scores = {name: draw.uniform(size=(n, 1)) for name in weights}
    truth = sum(w * (rankdata(scores[name]) / n) for name, w in weights.items()) + noise * draw.normal(size=n)
    return Table(f"pool {seed}", scores, truth)


def read(program):
    """Return the weight of every proxy in a program, by hand."""
    if program.name == "add":
        return {name: weight for argument in program.args for name, weight in read(argument).items()}
    assert program.name == "mul"
    weight, proxy = program.args
    return {proxy.name: float(weight.name)}


def test_the_weights_are_those_of_the_formula():
    pool = table({"a": 3, "b": 1, "c": 0.5, "d": -2})
    found = read(weighted_sum([pool], "ranks"))
    ranks = {name: (own := rankdata(scores) / 400) - own.mean() for name, scores in pool.scores.items()}
    z = np.column_stack([own / own.std() for own in ranks.values()])
    r = (own := rankdata(pool.truth) - 200.5) / own.std()

    def loss(w):
        return ((r - z @ w) ** 2).sum() + PENALTY * 400 * (w**2).sum()

    best = minimize(loss, np.full(4, 0.1), bounds=[(0, None)] * 4, tol=1e-12).x
    assert best[3] == 0  # it would be negative, so it is left out
    assert list(found) == ["a", "b", "c"]
    expected = best[:3] / [ranks[name].std() for name in found]
    np.testing.assert_allclose(list(found.values()), expected, rtol=0.01)


def test_few_members_are_the_ones_that_rank_best():
    pool = table({"noise": 0, "a": 1, "b": 2, "weak": 0.2})
    assert set(read(weighted_sum([pool], "ranks", 2))) == {"a", "b"}
    single = weighted_sum([pool], "ranks", 1)
    assert set(read(single)) == {"b"}
    assert len(read(weighted_sum([pool], "ranks", 9))) <= 4


def test_of_several_pools_the_worst_one_counts():
    one, other = table({"a": 3, "b": 0, "c": 2}), table({"a": 0, "b": 3, "c": 2}, seed=1)
    assert set(read(weighted_sum([one, other], "ranks", 1))) == {"c"}


@pytest.mark.parametrize("scale", ["ranks", "logs"])
def test_the_program_is_read_back_and_ranks_as_the_sum(scale):
    pool = table({name: 1 + place for place, name in enumerate("abcdefghijk")}, noise=0.01)
    program = weighted_sum([pool], scale)
    assert program.height <= 6  # a tree that is as low as possible
    constants = [word for word in WORD.findall(str(program)) if is_constant(word)]
    assert len(constants) == len(read(program))
    assert parse(vocabulary(list("abcdefghijk"), constants=constants), str(program)) == program
    values = pool.values(scale)
    own = run(program, values)
    np.testing.assert_allclose(own, sum(w * values[name] for name, w in read(program).items()))
    assert kendalltau(own, pool.truth).statistic > 0.7


def test_pools_without_any_order_give_one_proxy():
    flat = Table("flat", {"a": np.ones((20, 1)), "b": np.ones((20, 1))}, np.arange(20.0))
    assert str(weighted_sum([flat], "ranks", 2)) == "a"
    assert str(weighted_sum([flat], "ranks")) == "a"
