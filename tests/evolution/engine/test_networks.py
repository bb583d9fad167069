"""Tests of the problem of programs, on made-up networks with known statistics."""

import functools
import math
import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from zcbench.engine import Workers
from zcbench.evolution.data.statistics import Group, Statistics
from zcbench.evolution.engine import networks as module
from zcbench.evolution.engine.fitness import fitness
from zcbench.evolution.engine.networks import Measure, NetworkProblem, Pool, Scoring
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.primitives import PRIMITIVES
from zcbench.evolution.language.programs import Vocabulary

WORDS = Vocabulary(dict.fromkeys(["T1_D", "T2_D", "T3"], "tensor"), PRIMITIVES)


@dataclass(frozen=True)
class Made:
    """A network of three instances, two of equal shapes; all elements of T1_D are its number."""

    number: float
    seed: int = 0

    def load(self):
        draw = torch.Generator().manual_seed(self.seed)
        return Statistics(
            3,
            tuple(
                Group(
                    {
                        "T1_D": torch.full((len(places), 1, 2, size, size), self.number),
                        "T2_D": torch.randn(len(places), 1, 2, size, size, generator=draw),
                        "T3": torch.randn(len(places), 4, 2, 3, 3, generator=draw),
                    },
                    places,
                )
                for size, places in ((4, (0, 2)), (2, (1,)))
            ),
        )


def pools(*sizes):
    return [
        Pool(f"ground {g}", [Made(float(n), 100 * g + n) for n in range(size)], np.arange(size) * 1.0)
        for g, size in enumerate(sizes)
    ]


def problem(*sizes, workers=1, **measure):
    return NetworkProblem(pools(*sizes), Scoring(), Measure(**measure), Workers(workers))


def programs(*texts):
    return [parse(WORDS, text) for text in texts]


def test_scores_are_means_over_instances_of_means_over_elements():
    found = problem(5).scores(programs("T1_D", "square(T1_D)", "frobenius(T1_D)"), [0, 3])
    np.testing.assert_allclose(found[0], [0, 3])
    np.testing.assert_allclose(found[1], [0, 9])
    np.testing.assert_allclose(found[2], [0, 3 * (2 * math.sqrt(32) + math.sqrt(8)) / 3])


def test_instances_whose_shapes_do_not_fit_are_left_out():
    mixed = programs("add(T1_D, T3)", "lt(T1_D, T2_D)")
    scores = problem(4).scores(mixed, [0, 1])
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()
    assert problem(4).valid(mixed) == [False, True]


def test_programs_that_give_no_numbers_are_not_valid():
    texts = ("T1_D", "log(T1_D)", "inv(T1_D)", "exp(exp(exp(exp(add(T2_D, T2_D)))))", "abs(T2_D)")
    # log(0) and log(1) are both 0, so all scores are equal.
    assert problem(4, 4).valid(programs(*texts)) == [True, False, False, False, True]


def test_programs_behave_alike_that_score_alike():
    it = problem(4, 4)
    first, second, other = programs("abs(T1_D)", "relu(T1_D)", "square(add(T1_D, T1_D))")
    assert it.behaviour(first) == it.behaviour(second) != it.behaviour(other)


def test_fitness_is_the_least_coefficient():
    it = problem(8, 6, draw=0, grounds=0)
    drawn = it.everything()
    up, down, nothing = programs("T1_D", "inv(exp(T1_D))", "ones_like(T1_D)")
    assert it.fitness([up, down, nothing], drawn) == [pytest.approx((v,)) for v in (1, 1, -1)]
    np.testing.assert_allclose(it.coefficients([up, down], drawn), [[1, 1], [-1, -1]])


@pytest.mark.parametrize("sign", ["any", "same"])
@pytest.mark.parametrize("exact", [0, 1, 3, 12, 40])
def test_the_best_have_their_fitness_and_the_others_a_bound(monkeypatch, exact, sign):
    many = programs(*(f"frobenius({'square(' * n}T1_D{')' * n})" for n in range(9)), *TEXTS[:3])
    drawn = dict.fromkeys(range(4), (0, 1, 2))
    for seed in range(30):
        table = np.random.default_rng(seed).uniform(-1, 1, (len(many), 4)).round(1)  # with ties
        table[np.random.default_rng(seed).random(table.shape) < 0.05] = np.nan
        asked = []

        def coefficients(self, chosen, grounds, table=table, asked=asked):
            asked.extend((program, *grounds) for program in chosen)
            return table[[[many.index(program)] for program in chosen], list(grounds)]

        monkeypatch.setattr(NetworkProblem, "coefficients", coefficients)
        got = np.array(problem(4, 4, 4, 4, sign=sign, exact=exact).fitness(many, drawn))[:, 0]
        assert len(asked) == len(set(asked))
        true = np.array([fitness(row.tolist(), sign) for row in table])
        assert (got >= true).all()
        # The best have their exact fitness, and no other program has a higher one.
        best = np.argsort(-got, kind="stable")[: exact or None]
        np.testing.assert_array_equal(got[best], true[best])
        np.testing.assert_array_equal(true[best], -np.sort(-true)[: exact or None])


@pytest.mark.parametrize("sizes", [(1,), (3,), (20,), (20, 20, 20), (8, 30)])
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_blocks_hold_every_network_once_and_keep_every_worker_busy(sizes, workers):
    it = problem(*sizes, workers=workers)
    everything = list(range(sum(sizes)))
    blocks = it._blocks(everything)
    assert sorted(network for block, _ in blocks for network in block) == everything
    assert max(len(block) for block, _ in blocks) <= module.BLOCK
    assert sum(shares for _, shares in blocks) >= workers - 1 or len(blocks) == len(everything)
    if len(everything) > module.BLOCK:  # blocks of one ground
        assert all(np.ptp(np.searchsorted(it.starts, block, side="right")) == 0 for block, _ in blocks)


def test_scores_do_not_depend_on_the_shares_of_a_block(monkeypatch):
    many = programs("T1_D", "square(T1_D)", *TEXTS)
    wanted = problem(2, 3).scores(many, [0, 3, 4])
    asked = []
    monkeypatch.setattr(Workers, "map", lambda self, f, tasks: [asked.append(t) or f(t) for t in tasks])
    got = problem(2, 3, workers=12).scores(many, [0, 3, 4])
    np.testing.assert_array_equal(got, wanted)
    assert len(asked) > 3


@pytest.mark.parametrize("exact", [0, 2])
def test_all_grounds_behind_the_first_are_measured_together(exact):
    it = problem(4, 4, 4, draw=0, grounds=0, exact=exact)
    stages = it._stages(it.everything())
    assert [list(stage) for stage in stages] == ([[0], [1, 2]] if exact == 0 else [[0], [1], [2]])
    assert [list(stage) for stage in it._stages({2: (0,)})] == [[2]]


def test_few_that_are_exact_cost_less(monkeypatch):
    asked = []
    measured = NetworkProblem.coefficients
    monkeypatch.setattr(NetworkProblem, "coefficients", lambda s, p, d: asked.append(len(p)) or measured(s, p, d))
    it = problem(6, 6, 6, draw=0, grounds=0, exact=1)
    one, *others = programs("T1_D", *TEXTS[:5])
    found = it.fitness([one, *others], it.everything())
    assert found[0] == pytest.approx((1.0,))
    assert asked == [6, 1, 1]


def test_a_draw_has_distinct_grounds_and_networks_and_follows_from_the_generator():
    it = problem(9, 8, 7, draw=5, grounds=2)
    draws = [it.draw(random.Random(seed)) for seed in range(40)]
    for drawn in draws:
        assert len(drawn) == 2
        for ground, chosen in drawn.items():
            assert len(set(chosen)) == 5
            assert max(chosen) < len(it.pools[ground].handles)
    assert {ground for drawn in draws for ground in drawn} == {0, 1, 2}
    assert it.draw(random.Random(3)) == draws[3]
    assert {g: len(c) for g, c in problem(9, 8, draw=0, grounds=0).draw(random.Random(0)).items()} == {0: 9, 1: 8}


TEXTS = ("mean(T2_D)", "frobenius(mul(T1_D, T2_D))", "det(T2_D)", "mean(T3)", "logdet(sign(T2_D))", "T1_D")


def test_the_number_of_workers_changes_no_digit():
    found = programs(*TEXTS)
    networks = list(range(9))
    one = problem(9).scores(found, networks)
    with Workers(2) as workers:
        two = NetworkProblem(pools(9), Scoring(), Measure(), workers).scores(found, networks)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("workers", "size", "blocks"), [(1, 9, [9]), (2, 9, [5, 4]), (4, 2, [1, 1]), (2, 21, [7, 7, 7]), (3, 20, [7, 7, 6])]
)
def test_networks_are_shared_among_workers_in_blocks_of_about_one_size(monkeypatch, workers, size, blocks):
    it, sizes = problem(size), []
    score = module._scores

    def recorded(task):
        sizes.append(len(task[0]))
        return score(task)

    monkeypatch.setattr(module, "_scores", recorded)
    it.workers.count = workers  # one process works, but the blocks are those of `workers` workers
    monkeypatch.setattr(it.workers, "map", map)
    found = it.scores(programs(*TEXTS), list(range(size)))
    assert sizes == blocks
    np.testing.assert_array_equal(found, problem(size).scores(programs(*TEXTS), list(range(size))))


def test_programs_together_score_as_they_do_alone():
    together = problem(5).scores(programs(*TEXTS), list(range(5)))
    for row, text in zip(together, TEXTS, strict=True):
        np.testing.assert_array_equal(row, problem(5).scores(programs(text), list(range(5)))[0])


def test_no_network_is_visited_twice_with_one_program(monkeypatch):
    loads = []
    load = Made.load
    monkeypatch.setattr(Made, "load", lambda self: loads.append(self) or load(self))
    import zcbench.evolution.engine.networks as module

    monkeypatch.setattr(module, "_load", functools.lru_cache(module._load.__wrapped__))
    it = problem(6)
    first = it.scores(programs("mean(T2_D)"), [0, 1, 2])
    again = it.scores(programs("mean(T2_D)"), [2, 1, 0, 3])
    np.testing.assert_array_equal(again[0, :3], first[0, ::-1])
    assert len(loads) == 4


def test_depth_weighs_later_instances_more():
    weighted = NetworkProblem(pools(4), Scoring(aggregation="depth"), Measure(), Workers(1))
    found = weighted.scores(programs("numel(T1_D)"), [1])
    assert found[0, 0] == pytest.approx((1 * 32 + 2 * 8 + 3 * 32) / 6)
    l2 = NetworkProblem(pools(4), Scoring(to_scalar="l2"), Measure(), Workers(1)).scores(programs("T1_D"), [2])
    assert l2[0, 0] == pytest.approx(2 * (2 * math.sqrt(32) + math.sqrt(8)) / 3)
