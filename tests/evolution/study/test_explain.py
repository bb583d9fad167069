import itertools
import math

import numpy as np
import pytest
from zcbench.evolution.language.parse import parse
from zcbench.evolution.study.explain import VARIED, as_tree, responses
from zcbench.evolution.study.found import STATISTICS


def groups(found):
    return {factor: list(own) for factor, own in itertools.groupby(found, key=lambda r: r.factor)}


def test_the_response_of_counting_programs_is_their_count():
    found = groups(responses(parse(STATISTICS, "numel(T1_D)"), draws=10))
    assert [r.mean for r in found["size"]] == [16 * size**2 for size in VARIED["size"]]
    assert [r.mean for r in found["channels"]] == [channels * 64 for channels in VARIED["channels"]]
    assert {r.mean for r in found["kernel"]} == {16 * 64}
    weights = groups(responses(parse(STATISTICS, "numel(T3)"), draws=10))
    assert [r.mean for r in weights["kernel"]] == [256 * kernel**2 for kernel in VARIED["kernel"]]


def test_the_mean_over_draws_is_the_expectation():
    """|N(0, 1)| has mean sqrt(2 / pi) and, over n numbers, standard deviation sqrt((1 - 2 / pi) / n)."""
    for r in responses(parse(STATISTICS, "mean(abs(T1_D))"), draws=2000):
        numbers = r.channels * r.size**2
        assert r.mean == pytest.approx(math.sqrt(2 / math.pi), abs=5 / math.sqrt(2000 * numbers))
        assert r.deviation == pytest.approx(math.sqrt((1 - 2 / math.pi) / numbers), rel=0.15)
        assert r.finite == 1


def test_same_seed_same_response():
    program = parse(STATISTICS, "frobenius(sigmoid(logdet(sign(T1G_D))))")
    assert responses(program, draws=20) == responses(program, draws=20)
    assert responses(program, draws=20) != responses(program, draws=20, seed=1)


def test_values_that_are_not_finite_are_counted():
    found = responses(parse(STATISTICS, "exp(exp(exp(numel(T1_D))))"), draws=3)
    assert {r.finite for r in found} == {0.0}
    assert all(np.isnan(r.mean) for r in found)


def test_a_tree_has_a_line_a_node():
    drawn = as_tree(parse(STATISTICS, "add(abs(T1_D), mul(T1_D, T2_D))"))
    assert drawn.splitlines() == ["add", "├─ abs", "│  └─ T1_D", "└─ mul", "   ├─ T1_D", "   └─ T2_D"]
