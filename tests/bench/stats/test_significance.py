from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from zcbench.bench.stats.bootstrap import bootstrap, by_network, interval, resamples
from zcbench.bench.stats.coefficients import kendall, spearman
from zcbench.bench.stats.significance import Difference, differences, holm

Vector = NDArray[np.float64]


def draw(n: int, levels: int | None, seed: int) -> Vector:
    generator = np.random.RandomState(seed)
    values = generator.randint(levels, size=n) if levels else generator.standard_normal(n)
    return np.asarray(values, dtype=np.float64)


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def bootstrap_kendall(x: Vector, y: Vector, weights: Vector) -> Vector:
    return bootstrap(x, y, by_network(weights, len(y)))[1]


def bootstrap_spearman(x: Vector, y: Vector, weights: Vector) -> Vector:
    return bootstrap(x, y, by_network(weights, len(y)))[0]


def every_pair(values: Vector, drawn: Vector) -> list[Difference]:
    """The differences between every two proxies, given their coefficients and those of resamples."""
    pairs = list(combinations(range(len(values)), 2))
    return differences(np.array([values[[a, b]] for a, b in pairs]), np.array([drawn[a] - drawn[b] for a, b in pairs]))


def test_holm_by_hand() -> None:
    # 0.01 * 4, then 0.02 * 3, 0.03 * 2 is no less, and 0.04 * 1 neither.
    assert holm(np.array([0.04, 0.01, 0.03, 0.02])).tolist() == near([0.06, 0.04, 0.06, 0.06])
    assert holm(np.array([0.5, 0.6])).tolist() == near([1, 1])
    assert holm(np.array([math.nan, 0.01])).tolist() == near([math.nan, 0.02])
    assert holm(np.empty(0)).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_rejects_step_by_step(values: list[float]) -> None:
    p, level = np.array(values), 0.05
    rejected, order = set[int](), np.argsort(p, kind="stable")
    for step, i in enumerate(order.tolist()):
        if p[i] * (len(p) - step) > level:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(p) <= level).tolist()) == rejected


def test_differences_are_paired() -> None:
    truth, weights = draw(80, None, 0), resamples(80, 400)
    proxies = [truth + k * draw(80, None, seed) for k, seed in ((0.3, 1), (0.31, 2), (3, 3))]
    values = np.array([spearman(x, truth) for x in proxies])
    drawn = np.stack([bootstrap_spearman(x, truth, weights) for x in proxies])
    found = every_pair(values, drawn)
    for d, (a, b) in zip(found, combinations(range(3), 2), strict=True):
        gaps = drawn[a] - drawn[b]
        assert (d.first, d.second, d.difference) == near((values[a], values[b], values[a] - values[b]))
        assert (d.low, d.high) == near(interval(gaps))
        assert d.p == near(min(1, 2 * (1 + min((gaps <= 0).sum(), (gaps >= 0).sum())) / 401))
        assert d.p_normal == near(2 * stats.norm.cdf(-abs(d.difference) / gaps.std(ddof=1)))
        # An interval excludes 0 where the percentile p is small, and the other way about.
        assert (d.low > 0 or d.high < 0) == (d.p < 0.05)
    assert [d.p_holm for d in found] == near(holm(np.array([d.p_normal for d in found])).tolist())
    assert found[0].p > 0.05
    assert found[1].p_holm < 0.001


def test_differences_turn_round_with_the_pair() -> None:
    truth, weights = draw(60, None, 0), resamples(60, 100)
    x, y = truth + draw(60, None, 1), truth + 2 * draw(60, None, 2)
    values = np.array([kendall(x, truth), kendall(y, truth)])
    drawn = np.stack([bootstrap_kendall(v, truth, weights) for v in (x, y)])
    (there,), (back,) = every_pair(values, drawn), every_pair(values[::-1], drawn[::-1])
    assert (back.difference, back.low, back.high) == near((-there.difference, -there.high, -there.low))
    assert (back.p, back.p_normal, back.p_holm) == near((there.p, there.p_normal, there.p_holm))


def test_a_proxy_does_not_differ_from_itself() -> None:
    drawn = np.tile(draw(30, None, 0), (2, 1))
    (found,) = every_pair(np.array([0.5, 0.5]), drawn)
    assert (found.difference, found.low, found.high, found.p, found.p_normal, found.p_holm) == (0, 0, 0, 1, 1, 1)


def test_differences_without_resamples_are_nan() -> None:
    drawn = np.vstack([draw(30, None, 0), np.full(30, math.nan)])
    (found,) = every_pair(np.array([0.5, math.nan]), drawn)
    assert all(map(math.isnan, [found.difference, found.low, found.high, found.p, found.p_normal, found.p_holm]))
    with pytest.raises(ValueError, match=r"differences: expected \(pairs, 2\) and \(pairs, resamples\)"):
        differences(np.array([0.5, 0.5]), drawn)


def test_intervals_and_differences_cover_what_they_should() -> None:
    # Normal scores: Kendall's tau of the population is 2/pi arcsin(r), and equal proxies differ by nothing.
    covered, rejected, rounds, r = 0, 0, 200, 1 / math.sqrt(2)
    weights = resamples(100, 300, seed=9)
    for seed in range(rounds):
        truth, x, y = np.random.RandomState(seed).standard_normal((3, 100))
        drawn = np.stack([bootstrap_kendall(truth + v, truth, weights) for v in (x, y)])
        low, high = interval(drawn[0])
        covered += low <= 2 / math.pi * math.asin(r) <= high
        (gap,) = every_pair(np.array([kendall(truth + v, truth) for v in (x, y)]), drawn)
        rejected += gap.p_normal < 0.05
    # 200 draws of .95 and .05 lie within 4 standard deviations, .06, of these.
    assert covered / rounds == pytest.approx(0.95, abs=0.06)
    assert rejected / rounds == pytest.approx(0.05, abs=0.06)
