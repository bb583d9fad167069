"""Tests of formulas over layer tables: every operation against a loop over networks."""

import math
import random

import numpy as np
import pytest
from zcbench.errors import ProgramError
from zcbench.evolution.language.layers import PRIMITIVES, Networks, scores, vocabulary
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.variation import Trees

WORDS = vocabulary(["a", "b"])
COUNTS = [3, 1, 4]
NETWORKS = Networks(np.array(COUNTS))
A = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 4.0, -1.0, 2.0])
B = np.array([2.0, 0.0, 1.0, 5.0, 1.0, 1.0, 2.0, 0.25])


def run(text, a=A, b=B, networks=NETWORKS):
    return scores(parse(WORDS, text), {"a": a, "b": b}, networks).tolist()


def parts(values):
    return np.split(values, np.cumsum(COUNTS)[:-1])


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("sum(a)", lambda a, b: sum(a)),
        ("mean(a)", lambda a, b: sum(a) / len(a)),
        ("least(a)", lambda a, b: min(a)),
        ("most(a)", lambda a, b: max(a)),
        ("sum(add(a, b))", lambda a, b: sum(x + y for x, y in zip(a, b, strict=True))),
        ("sum(sub(a, b))", lambda a, b: sum(x - y for x, y in zip(a, b, strict=True))),
        ("sum(mul(a, b))", lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))),
        ("sum(div(a, b))", lambda a, b: sum(x / y if y else 0 for x, y in zip(a, b, strict=True))),
        ("sum(larger(a, b))", lambda a, b: sum(max(x, y) for x, y in zip(a, b, strict=True))),
        ("sum(smaller(a, b))", lambda a, b: sum(min(x, y) for x, y in zip(a, b, strict=True))),
        ("sum(log(a))", lambda a, b: sum(math.copysign(math.log(1 + abs(x)), x) for x in a)),
        ("sum(sqrt(a))", lambda a, b: sum(math.sqrt(abs(x)) for x in a)),
        ("sum(square(a))", lambda a, b: sum(x**2 for x in a)),
        # a scalar beside numbers for maps is repeated: the share of each map in the sum of its network, squared
        ("sum(square(div(a, sum(b))))", lambda a, b: sum((x / sum(b)) ** 2 for x in a)),
        ("mul(sum(a), 10)", lambda a, b: 10 * sum(a)),
        ("a", lambda a, b: sum(a) / len(a)),
    ],
)
def test_a_formula_is_what_a_loop_computes(text, of):
    expected = [of(a.tolist(), b.tolist()) for a, b in zip(parts(A), parts(B), strict=True)]
    assert run(text) == pytest.approx(expected, rel=1e-12)


def test_a_network_scores_the_same_alone_to_the_last_bit():
    draw, rng = np.random.RandomState(0), random.Random(0)
    counts = draw.randint(1, 200, 30)
    a, b = draw.normal(size=(2, counts.sum()))
    trees = Trees(WORDS)
    ends = np.cumsum(counts)[:-1]
    pieces = list(zip(np.split(a, ends), np.split(b, ends), strict=True))
    for _ in range(50):
        program = trees.grow(rng, 1, 5)
        together = scores(program, {"a": a, "b": b}, Networks(counts))
        alone = [scores(program, {"a": x, "b": y}, Networks(np.array([len(x)])))[0] for x, y in pieces]
        np.testing.assert_array_equal(together, alone)


def test_a_memo_changes_nothing():
    memo: dict = {}
    program = parse(WORDS, "mul(sum(mul(a, b)), mean(mul(a, b)))")
    first, second = (scores(program, {"a": A, "b": B}, NETWORKS, memo) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, scores(program, {"a": A, "b": B}, NETWORKS))


def test_every_operation_is_described():
    assert all(primitive.summary.endswith(".") for primitive in PRIMITIVES.values())


@pytest.mark.parametrize(("text", "words"), [("sum(logdet(a))", "logdet"), ("sum(mean(a))", "not a scalar")])
def test_what_is_no_formula_is_refused(text, words):
    with pytest.raises(ProgramError, match=words):
        parse(WORDS, text)
