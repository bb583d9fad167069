from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from zcbench.bench.stats.bootstrap import bootstrap, by_network, resamples
from zcbench.bench.stats.coefficients import kendall
from zcbench.bench.stats.places import Place, places
from zcbench.bench.stats.significance import differences


def board(taus: list[float], apart: dict[tuple[int, int], float]) -> list[Place | None]:
    values = np.asarray(taus)
    p = np.full((len(taus), len(taus)), 1.0)
    for (a, b), value in apart.items():
        p[a, b] = p[b, a] = value
    return places(values, values[:, None] - values, p)


def test_places_by_hand() -> None:
    # The first and the second are not told apart. The third is told from the first alone, the fourth from all.
    found = board([0.7, 0.65, 0.5, 0.1], {(0, 2): 0.01, (0, 3): 0.0, (1, 3): 0.0, (2, 3): 0.04})
    assert found == [Place(1, 1, 2), Place(2, 1, 3), Place(3, 2, 3), Place(4, 4, 4)]
    assert [str(place) for place in found] == ["1 (1-2)", "2 (1-3)", "3 (2-3)", "4"]


def test_all_alike_may_have_any_rank() -> None:
    assert board([0.5, 0.5, 0.4], {}) == [Place(1, 1, 3), Place(1, 1, 3), Place(3, 1, 3)]


def test_a_proxy_without_a_coefficient_has_no_place() -> None:
    found = board([0.5, math.nan, 0.4], {(0, 1): 0.0, (0, 2): 0.0})
    assert found == [Place(1, 1, 1), None, Place(2, 2, 2)]


def test_a_pair_without_a_p_value_is_not_told_apart() -> None:
    assert board([0.5, 0.1], {(0, 1): math.nan}) == [Place(1, 1, 2), Place(2, 1, 2)]


def test_the_networks_that_both_scored_order_a_pair() -> None:
    values, p = np.asarray([0.5, 0.4, 0.3]), np.ones((3, 3))
    gaps = np.asarray([[0, -0.1, math.nan], [0.1, 0, 0.1], [math.nan, -0.1, 0]])
    assert places(values, gaps, p) == [Place(2, 1, 3), Place(1, 1, 3), Place(3, 1, 3)], (
        "without a pair, all networks do"
    )
    p[0, 1] = p[1, 0] = 0.01
    assert places(values, gaps, p) == [Place(2, 2, 3), Place(1, 1, 2), Place(3, 1, 3)]


def pairs(k: int, ahead: list[tuple[int, int]]) -> np.ndarray:
    """Return differences of .1 for the pairs in which the first is ahead."""
    gaps = np.zeros((k, k))
    for first, second in ahead:
        gaps[first, second], gaps[second, first] = 0.1, -0.1
    return gaps


def test_proxies_in_a_circle_share_a_rank() -> None:
    # Each of the first three is behind one of them; the fourth is behind all.
    gaps = pairs(4, [(0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3)])
    found = places(np.asarray([0.5, 0.4, 0.3, 0.2]), gaps, np.ones((4, 4)))
    assert [place.rank for place in found if place] == [1, 1, 1, 4]


def test_a_rank_lies_in_its_range() -> None:
    # The first is behind the second alone, which is behind two others. But that one difference is significant.
    gaps = pairs(4, [(1, 0), (0, 2), (0, 3), (2, 1), (3, 1), (2, 3)])
    values, p = np.asarray([0.5, 0.4, 0.3, 0.2]), np.ones((4, 4))
    assert [str(place) for place in places(values, gaps, p)] == ["1 (1-4)", "3 (1-4)", "1 (1-4)", "3 (1-4)"]
    p[0, 1] = p[1, 0] = 0.01
    assert [str(place) for place in places(values, gaps, p)] == ["2 (2-4)", "3 (1-3)", "1 (1-4)", "3 (1-4)"]


def test_the_order_of_proxies_does_not_change_their_ranks() -> None:
    random = np.random.RandomState(0)
    for _ in range(50):
        values = random.standard_normal(7).round(1)
        values[random.rand(7) < 0.2] = math.nan
        half = np.triu(random.standard_normal((7, 7)).round(1), 1)
        gaps, order = half - half.T, random.permutation(7)
        p = np.triu(random.rand(7, 7) / 5, 1)
        found = places(values, gaps, p + p.T)
        assert places(values[order], gaps[np.ix_(order, order)], (p + p.T)[np.ix_(order, order)]) == [
            found[i] for i in order
        ]
        assert all(place is None or place.low <= place.rank <= place.high for place in found)


def simulated(noise: list[float], n: int, seed: int) -> tuple[list[Place | None], np.ndarray]:
    """Return the places of proxies with some noise, half of it common to all, and their ranks in every resample."""
    random = np.random.RandomState(seed)
    weights = by_network(resamples(n, 300), n)
    truth, common = random.standard_normal((2, n))
    scores = [truth + common + a * random.standard_normal(n) for a in noise]
    values = np.asarray([kendall(x, truth) for x in scores])
    drawn = np.stack([bootstrap(x, truth, weights)[1] for x in scores])
    pairs = np.asarray(list(combinations(range(len(noise)), 2)))
    gaps, p = np.zeros((2, len(noise), len(noise)))
    for (a, b), row in zip(pairs, differences(values[pairs], drawn[pairs[:, 0]] - drawn[pairs[:, 1]]), strict=True):
        gaps[a, b], gaps[b, a] = row.difference, -row.difference
        p[a, b] = p[b, a] = row.p_holm
    return places(values, gaps, p), 1 + (drawn[None] > drawn[:, None]).sum(1)


def test_equal_proxies_are_seldom_told_apart() -> None:
    # Of 200 boards of six proxies with the same true tau, so that any rank of any proxy is true.
    separated = resampled = 0
    for seed in range(200):
        found, ranks = simulated([1.0] * 6, 100, seed)
        separated += any(place is None or place.low > 1 or place.high < 6 for place in found)
        low, high = np.quantile(ranks, [0.025, 0.975], axis=1, method="nearest")
        resampled += bool(((low > 1) | (high < 6)).any())
    assert separated < 10
    # The percentiles of resampled ranks tell equal proxies apart on most boards, so they are not used.
    assert resampled > 100


def test_worse_proxies_are_told_apart() -> None:
    found, _ = simulated([1.0] * 3 + [4.0] * 3, 300, 0)
    assert [(place.low, place.high) for place in found if place] == [(1, 3)] * 3 + [(4, 6)] * 3
