"""Tests of the kinds of fitness that compare with known proxies, on pools whose tables are made up."""

import random

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau
from zcbench.engine import Workers
from zcbench.evolution.data.layers import COLUMNS
from zcbench.evolution.data.statistics import Group, Statistics
from zcbench.evolution.engine.config import RIVALS
from zcbench.evolution.engine.fitness import coefficient, fitness
from zcbench.evolution.engine.layers import LayerProblem
from zcbench.evolution.engine.networks import Measure, Pool, Scoring
from zcbench.evolution.language.layers import vocabulary
from zcbench.evolution.language.parse import parse

WORDS = vocabulary(list(COLUMNS))


class Table:
    """What a handle loads: a table of random numbers."""

    def __init__(self, seed):
        draw = torch.Generator().manual_seed(seed)
        rows = 2 + seed % 3
        self.columns = {name: torch.rand(1, rows, generator=draw, dtype=torch.float64) for name in COLUMNS}

    def load(self):
        return Statistics(1, (Group(self.columns, (0,)),))


def problem(objective, workers, sign="higher", rivals=RIVALS):
    draw = np.random.RandomState(0)
    pools = [Pool(f"pool {p}", [Table(100 * p + n) for n in range(12)], draw.normal(size=12)) for p in range(2)]
    return LayerProblem(pools, Scoring(), Measure(0, 0, objective, sign=sign, rivals=rivals), workers)


def scores(found, text):
    return found.scores([parse(WORDS, text)], range(24))[0]


def test_gain_is_over_the_best_rival_of_each_pool():
    with Workers(1) as workers:
        found = problem("gain", workers)
        (value,) = found.coefficients([parse(WORDS, "mean(saliency)")], found.everything())
        own, rivals = scores(found, "mean(saliency)"), [scores(found, text) for text in RIVALS]
        for ground, pool in enumerate(found.pools):
            part = slice(12 * ground, 12 * ground + 12)
            best = max(kendalltau(rival[part], pool.accuracies).statistic for rival in rivals)
            assert value[ground] == pytest.approx(kendalltau(own[part], pool.accuracies).statistic - best)
        # the fitness is the least of both, and a rival alone gains at most nothing
        assert found.fitness([parse(WORDS, "mean(saliency)")], found.everything()) == [(pytest.approx(value.min()),)]
        gains = found.coefficients([parse(WORDS, text) for text in RIVALS], found.everything())
        assert gains.max(0) == pytest.approx([0, 0])


def test_gain_is_over_the_rivals_that_are_given():
    with Workers(1) as workers:
        given, usual = problem("gain", workers, rivals=("sum(effective_rank)",)), problem("gain", workers)
        program = parse(WORDS, "sum(effective_rank)")
        assert given.coefficients([program], given.everything())[0] == pytest.approx([0, 0])
        assert usual.coefficients([program], usual.everything())[0] != pytest.approx([0, 0])


def test_partial_is_kendalls_formula_given_the_parameters():
    with Workers(1) as workers:
        found = problem("partial", workers)
        (value,) = found.coefficients([parse(WORDS, "mean(saliency)")], found.everything())
        own, size = scores(found, "mean(saliency)"), scores(found, "sum(params)")
        for ground, pool in enumerate(found.pools):
            part = slice(12 * ground, 12 * ground + 12)
            xy, xz, yz = (
                kendalltau(a, b).statistic
                for a, b in ((own[part], pool.accuracies), (own[part], size[part]), (size[part], pool.accuracies))
            )
            assert value[ground] == pytest.approx((xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2)))
        # what follows from the size has no partial coefficient
        assert np.isnan(found.coefficients([parse(WORDS, "mul(2, sum(params))")], found.everything())).all()


def test_a_positive_sign_may_be_asked_for():
    assert fitness([-0.5, -0.4], "higher") == -0.5
    assert fitness([-0.5, -0.4], "same") == 0.4


def test_programs_that_rank_alike_are_one():
    with Workers(1) as workers:
        found = problem("tau", workers)
        keys = {found.behaviour(parse(WORDS, text)) for text in ("sum(snip)", "mul(2, sum(snip))", "log(sum(snip))")}
        assert len(keys) == 1
        assert found.behaviour(parse(WORDS, "mean(snip)")) not in keys


def test_all_networks_are_drawn_or_some():
    with Workers(1) as workers:
        found = problem("tau", workers)
        drawn = found.draw(random.Random(0))
        assert {ground: len(chosen) for ground, chosen in drawn.items()} == {0: 12, 1: 12}


def test_tau_is_as_before():
    own, truth = np.arange(5.0), np.array([1.0, 2, 3, 5, 4])
    assert coefficient(own, truth) == pytest.approx(kendalltau(own, truth).statistic)
