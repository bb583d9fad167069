"""What statistics cost. Run with `tox -e bench`; times of one thread, ratios measured in one run.

pytest tests/benchmarks/test_statistics.py --benchmark-enable
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_benchmark.fixture import BenchmarkFixture
from scipy import stats
from zcbench.bench.results.pairs import agree
from zcbench.bench.stats.bootstrap import bootstrap, by_network, resamples
from zcbench.bench.stats.ceiling import ceiling
from zcbench.bench.stats.coefficients import over_seeds, pearson, tied, weighted_kendall
from zcbench.bench.stats.conditional import among, given, representatives, within
from zcbench.bench.stats.correlation import correlate, correlate_seeds
from zcbench.bench.stats.significance import differences
from zcbench.bench.stats.top import choose, tops

Vector = NDArray[np.float64]
Seconds = Callable[..., float]

#: NAS-Bench-201.
NETWORKS, PROXIES, SEEDS, CLASSES = 15_625, 30, 7, 6466


def space(n: int) -> tuple[Vector, Vector]:
    """Accuracies in percent, and scores of one proxy with seven seeds."""
    generator = np.random.RandomState(0)
    truth = 50 + 10 * np.tanh(generator.standard_normal(n))
    return truth, truth[:, None] + 10 * generator.standard_normal((n, SEEDS))


def every_statistic(truth: Vector, scores: Vector) -> None:
    """All that is said of one proxy, without resamples."""
    generator = np.random.RandomState(1)
    sizes = [np.round(truth + 9 * generator.standard_normal(len(truth))) for _ in range(2)]
    classes, reachable = generator.randint(CLASSES, size=len(truth)), generator.rand(len(truth)) < 0.6
    none = resamples(len(truth), 0)
    overall = correlate(scores, truth, none)
    over_seeds(lambda x, y: (tied(x), pearson(x, y), weighted_kendall(x, y)), scores, truth)
    tops(scores, truth)
    for k in (1, 10, 100):
        choose(scores, truth, k)
    for size in sizes:
        given(scores, truth, size, none, overall)
    within(scores, truth, sizes[0] // 10, none, overall)
    for keep in (representatives(classes), reachable):
        among(scores, truth, keep, none, overall)
    agree(combinations(scores.T, 2))


def test_every_statistic_of_a_space(seconds: Seconds, benchmark: BenchmarkFixture) -> None:
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    truth, scores = space(NETWORKS)
    benchmark.pedantic(every_statistic, args=(truth, scores), rounds=5, warmup_rounds=1)
    columns = np.random.RandomState(2).standard_normal((NETWORKS, PROXIES))
    between = seconds(lambda: agree(combinations(columns.T, 2)), rounds=1)
    noise = seconds(lambda: ceiling(scores[:, :3], resamples(NETWORKS, 0)), rounds=1)
    of_one = seconds(lambda: every_statistic(truth, scores))
    scipys = seconds(lambda: (stats.kendalltau(scores[:, 0], truth), stats.spearmanr(scores[:, 0], truth)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # of KiB
    benchmark.extra_info |= {
        "proxies_30_s": PROXIES * of_one + between + noise,
        "scipys_per_seed": of_one / SEEDS / scipys,
        "peak_gib": memory,
    }
    # Where SciPy's two coefficients take 6.5 ms, 22 times as much for each of 30 x 7 columns is 30 s.
    assert of_one / SEEDS <= 22 * scipys
    assert memory < 2


def test_resamples_cost_less_than_pairs(seconds: Seconds, benchmark: BenchmarkFixture) -> None:
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    found = {}
    for n in (1000, NETWORKS):
        truth, scores = space(n)
        small = by_network(resamples(n), n)
        found[n] = seconds(lambda x=scores[:, 0], y=truth, w=small: bootstrap(x, y, w))  # type: ignore[misc]
    benchmark.extra_info |= {f"n_{n}_s": value for n, value in found.items()}
    benchmark.extra_info["growth"] = found[NETWORKS] / found[1000]
    benchmark.pedantic(bootstrap, args=(scores[:, 0], truth, small), rounds=3)
    # All pairs would grow by 15.6^2 = 244, buckets grow by 15.6^1.5 = 62.
    assert found[NETWORKS] / found[1000] <= 90


def test_buckets_are_quicker_than_all_pairs(seconds: Seconds, benchmark: BenchmarkFixture) -> None:
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    truth, scores = space(4000)
    x, small = scores[:, 0], by_network(resamples(4000), 4000)

    def all_pairs() -> None:
        signs = [np.sign(np.subtract.outer(v, v)).astype(np.float32) for v in (x, truth)]
        grades = [s @ small for s in signs]
        np.einsum("ij,ij,ij->j", small, *grades)
        np.einsum("ij,ij->j", small, (signs[0] * signs[1]) @ small)

    ratios = [seconds(all_pairs, 1) / seconds(lambda: bootstrap(x, truth, small), 1) for _ in range(4)][1:]
    benchmark.extra_info["ratio"] = statistics.median(ratios)
    benchmark.pedantic(bootstrap, args=(x, truth, small), rounds=3)
    assert statistics.median(ratios) >= 4


def test_board_of_thirty_proxies(benchmark: BenchmarkFixture) -> None:
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    truth, scores = space(1000)
    weights = resamples(1000)

    def board() -> None:
        drawn = [correlate_seeds(scores, truth, weights) for _ in range(PROXIES)]
        for name in ("rho", "tau"):
            means = [getattr(d, f"drawn_{name}").mean(0) for d in drawn]
            gaps = np.stack([a - b for a, b in combinations(means, 2)])
            differences(np.zeros((len(gaps), 2)), gaps)

    benchmark.pedantic(board, rounds=3)
