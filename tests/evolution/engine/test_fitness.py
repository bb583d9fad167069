import math

import numpy as np
import pytest
from scipy.stats import kendalltau, weightedtau
from zcbench.evolution.engine.fitness import NOTHING, coefficient, fitness

DRAW = np.random.default_rng(0)
SCORES, TRUTH = DRAW.normal(size=50), DRAW.normal(size=50)


def test_coefficients_are_those_of_scipy():
    assert coefficient(SCORES, TRUTH) == pytest.approx(kendalltau(SCORES, TRUTH).statistic, abs=1e-12)
    best = np.argsort(-TRUTH)[:10]
    assert coefficient(SCORES, TRUTH, "top", 0.2) == pytest.approx(kendalltau(SCORES[best], TRUTH[best]).statistic)
    both = [weightedtau(SCORES, TRUTH).statistic, -weightedtau(-SCORES, TRUTH).statistic]
    assert coefficient(SCORES, TRUTH, "weighted") == pytest.approx(max(both, key=abs), abs=1e-12)


def test_turning_scores_round_turns_the_sign():
    for objective in ("tau", "top", "weighted"):
        assert coefficient(-SCORES, TRUTH, objective) == pytest.approx(-coefficient(SCORES, TRUTH, objective))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_one_score_that_is_not_finite_is_no_coefficient(wrong):
    scores = SCORES.copy()
    scores[7] = wrong
    for objective in ("tau", "top", "weighted"):
        assert math.isnan(coefficient(scores, TRUTH, objective))


def test_constant_scores_are_no_coefficient():
    assert math.isnan(coefficient(np.ones(50), TRUTH))
    assert math.isnan(coefficient(SCORES, np.ones(50)))


@pytest.mark.parametrize(
    ("found", "any_sign", "same_sign"),
    [
        ([0.5, 0.3], 0.3, 0.3),
        ([-0.5, -0.3], 0.3, 0.3),
        ([0.5, -0.3], 0.3, -0.3),  # the signs of the two grounds differ
        ([0.5, 0.0], 0.0, 0.0),
        ([0.5, math.nan], NOTHING, NOTHING),
    ],
)
def test_the_least_coefficient_counts(found, any_sign, same_sign):
    assert fitness(found, "any") == any_sign
    assert fitness(found, "same") == same_sign
