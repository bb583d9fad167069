from __future__ import annotations

import itertools
import math
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from zcbench.bench.stats.bootstrap import resamples
from zcbench.bench.stats.coefficients import kendall, spearman
from zcbench.bench.stats.correlation import correlate
from zcbench.bench.stats.top import FEWEST, SHARES, Tops, choose, size, top, tops

Vector = NDArray[np.float64]
VALUES = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-9, 9).map(float), min_size=n, max_size=n).map(np.array)] * 2)
)
CURVES = [name for name in Tops.__dataclass_fields__ if name not in {"n", "shares"}]


def draw(n: int, levels: int | None, seed: int) -> Vector:
    generator = np.random.RandomState(seed)
    values = generator.randint(levels, size=n) if levels else generator.standard_normal(n)
    return np.asarray(values, dtype=np.float64)


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def ndcg(scores: Vector, truth: Vector, k: int, name: str = "ndcg", *, higher_is_better: bool = True) -> float:
    """Normalised discounted cumulative gain of the k highest scores."""
    share = min(k / max(1, len(truth)), 1)
    return float(getattr(tops(scores[:, None], truth, (share,), higher_is_better=higher_is_better), name)[0])


def gained(truth: Vector, order: NDArray[np.intp], k: int, gain: Any) -> float:
    return sum(gain(truth[i]) / math.log2(1 + j) for j, i in enumerate(order[:k].tolist(), start=1))


def share_inside(values: Vector, k: int) -> list[Fraction]:
    """How much of each value is among the k highest, if equal values share the places that are left."""
    return [
        min(Fraction(1), max(Fraction(0), Fraction(k - int((values > v).sum()), int((values == v).sum()))))
        for v in values
    ]


def written_out(shares: list[Fraction]) -> NDArray[np.intp]:
    """Indices in which every network occurs in proportion to its share."""
    times = math.lcm(*(share.denominator for share in shares))
    return np.repeat(np.arange(len(shares)), [int(share * times) for share in shares])


def by_definition(scores: Vector, truth: Vector, share: float, sign: int) -> list[float]:
    """The rows of Tops, one after the other, from their docstrings."""
    k = size(len(truth), share)
    by_score, by_accuracy = share_inside(sign * scores, k), share_inside(truth, k)
    low, spread = truth.min(), np.ptp(truth)
    order = np.argsort(-sign * scores, kind="stable")
    ratios = []
    for gain in (lambda a: 2.0**a - 1, lambda a: (a - low) / spread):
        ideal = gained(truth, np.argsort(-truth), k, gain) if spread else 0
        defined = ideal and (spread or gain(truth[0])) and (truth.min() >= 0 or gain(low) == 0)
        shared = lambda i: np.mean([gain(a) for a in truth[scores == scores[i]]])  # noqa: E731, B023
        ratios.append(gained(np.arange(len(truth)), order, k, shared) / ideal if defined else math.nan)
    # The best is above an accuracy unless all networks above it are left out of the places that equals share.
    certain = [i for i, share in enumerate(by_score) if share == 1]
    equals = [i for i, share in enumerate(by_score) if 0 < share < 1]
    floor = max([truth[i] for i in certain], default=-math.inf)
    places = k - len(certain)
    best = floor
    if equals:
        ordered = sorted((max(truth[i], floor) for i in equals), reverse=True)
        every = math.comb(len(equals), places)
        best = sum(a * math.comb(len(equals) - 1 - j, places - 1) / every for j, a in enumerate(ordered))
    return [
        float(sum(a * b for a, b in zip(by_score, by_accuracy, strict=True)) / k),
        *ratios,
        best,
        truth.max() - best,
        *(
            f(scores[chosen], truth[chosen]) if k >= FEWEST else math.nan
            for chosen in map(written_out, (by_accuracy, by_score))
            for f in (spearman, kendall)
        ),
    ]


@pytest.mark.parametrize(
    ("n", "size"), [(1, 1), (9, 1), (10, 1), (11, 2), (200, 20), (1000, 100), (1001, 101), (15_625, 1563)]
)
def test_top_size(n: int, size: int) -> None:
    assert len(top(np.arange(float(n)))) == size


def test_top_of_every_tenth_is_exact() -> None:
    # 0.1 is a little more than a tenth, and must not be rounded up to one network more.
    assert [n for n in range(10, 15_626, 10) if len(top(np.zeros(n))) != n // 10] == []


def test_top_is_the_highest_first() -> None:
    assert top(np.array([3.0, 9, 1, 7, 5]), share=0.5).tolist() == [1, 3, 4]


@pytest.mark.parametrize(
    ("values", "expected"), [([1, 2, 2, 1], [1]), ([5, 5, 5, 5], [0]), ([0, 3, 3, 3], [1]), ([-0.0, 0.0, -1, -1], [0])]
)
def test_top_gives_ties_to_the_lower_index(values: list[float], expected: list[int]) -> None:
    assert top(np.array(values, dtype=float), share=0.25).tolist() == expected


@pytest.mark.parametrize(
    ("n", "share", "expected"),
    [(100, 0.07, 7), (100, 0.29, 29), (1000, 0.001, 1), (7, 1.0, 7), (7, 0.01, 1), (10, 0.11, 2)],
)
def test_size_is_rounded_up_to_whole_networks(n: int, share: float, expected: int) -> None:
    # 0.07 * 100 = 7.000000000000001
    assert size(n, share) == expected


def test_every_percent_of_every_size_is_exact() -> None:
    assert [(n, c) for n in range(1, 400) for c in range(1, 101) if size(n, c / 100) != -(-c * n // 100)] == []


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize(("x_levels", "y_levels"), [(None, None), (4, None), (None, 4), (3, 3), (1, None), (2, 40)])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 99, 101])
def test_curves_equal_their_definitions(
    n: int, x_levels: int | None, y_levels: int | None, higher_is_better: bool
) -> None:
    x, y = draw(n, x_levels, n), 10 + draw(n, y_levels, n + 1) + (0 if y_levels else draw(n, x_levels, n))
    shares = SHARES if x_levels is y_levels is None else (0.01, 0.1, 0.15, 0.3, 0.55, 0.9, 1.0)
    found = tops(x[:, None], y, shares, higher_is_better=higher_is_better)
    assert (found.n, found.shares.tolist()) == (n, list(shares))
    for i, share in enumerate(shares):
        expected = by_definition(x, y, share, 1 if higher_is_better else -1)
        if np.ptp(y) == 0:
            expected[1] = 1.0  # all networks are worth the same, and something
        assert [getattr(found, name)[i] for name in CURVES] == near(expected), share


@given(VALUES, st.sampled_from([(0.1,), (0.05, 0.5), (0.3, 0.3, 1.0)]), st.booleans())
def test_coefficients_among_any_top(values: tuple[Vector, Vector], shares: tuple[float, ...], higher: bool) -> None:
    x, y = values
    found = tops(x[:, None], y, shares, higher_is_better=higher)
    for i, share in enumerate(shares):
        expected = by_definition(x, y + 9, share, 1 if higher else -1)[-4:]
        assert [getattr(found, name)[i] for name in CURVES[-4:]] == near(expected)


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize("levels", [None, 12])
def test_ten_percent_is_what_correlate_says(levels: int | None, higher_is_better: bool) -> None:
    scores, truth = draw(600, levels, 0).reshape(200, 3), 50 + draw(200, levels, 1)
    scores[7, 1] = scores[8, 2] = math.nan
    scores[9] = math.inf
    found = tops(scores, truth, higher_is_better=higher_is_better)
    known = correlate(scores, truth, resamples(200, 0), higher_is_better=higher_is_better)
    assert found.n == known.n == 199
    assert found.precision[9] == near(known.top_overlap)
    for name in CURVES[-4:]:
        assert getattr(found, name)[9] == near(getattr(known, name))
    for name, whole in (("rho_top_accuracy", known.rho), ("tau_top_score", known.tau)):
        assert getattr(found, name)[-1] == near(whole)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6), st.integers(1, 6))
@settings(max_examples=40)
def test_ties_are_the_mean_over_all_orders(pairs: list[tuple[int, int]], k: int) -> None:
    x, y = np.asarray(pairs, dtype=np.float64).T
    k = min(k, len(x))
    found = tops(x[:, None], y + 50, (k / len(x),))
    orders = [np.lexsort((order, -x)) for order in itertools.permutations(range(len(x)))]
    best = np.mean([(y + 50)[order[:k]].max() for order in orders])
    assert (found.best[0], choose(x[:, None], y + 50, k).best) == near((best, best))
    gains = [gained(y + 50, order, k, lambda a: 2.0**a - 1) for order in orders]
    assert found.ndcg[0] == near(np.mean(gains) / gained(y + 50, np.argsort(-y), k, lambda a: 2.0**a - 1))
    tops_of = [np.lexsort((order, -y))[:k] for order in itertools.permutations(range(len(x)))]
    if len(set(x)) == len(x) or len(set(y)) == len(y):
        overlap = np.mean([np.isin(order[:k], chosen).mean() for order in orders for chosen in tops_of])
        assert found.precision[0] == near(overlap)


def test_constant_scores_choose_by_chance() -> None:
    # Ten of a hundred equal networks hold one of the ten best, in whichever order they stand.
    truth = np.arange(100.0)
    for accuracies in (truth, truth[::-1].copy()):
        found = tops(np.ones((100, 1)), accuracies, (0.1,))
        assert (found.precision[0], correlate(np.ones((100, 1)), accuracies, resamples(100, 5)).top_overlap) == near(
            (0.1, 0.1)
        )
        # The mean of the highest of ten of the numbers 0 to 99 is 10 (100 + 1) / 11 - 1.
        assert found.best[0] == near(10 * 101 / 11 - 1)


def test_interval_of_the_top_holds_the_sample_and_needs_ten_networks() -> None:
    truth = draw(300, None, 0)
    scores = (truth + draw(300, None, 1))[:, None]
    found = correlate(scores, truth, resamples(300, 300))
    assert found.tau_top_accuracy_low < found.tau_top_accuracy < found.tau_top_accuracy_high
    assert found.tau_top_score_low < found.tau_top_score < found.tau_top_score_high
    few = correlate(scores[:80], truth[:80], resamples(80, 300))
    assert np.isnan([few.tau_top_accuracy, few.tau_top_accuracy_low, few.rho_top_score]).all()
    assert few.top_overlap > 0


def test_curves_by_hand() -> None:
    # Chosen in this order: 60, 90, 70 and 80 percent.
    found = tops(np.array([[3.0], [9], [1], [5]]), np.array([70.0, 60, 80, 90]), (0.25, 0.5, 0.75, 1))
    assert found.best.tolist() == [60, 90, 90, 90]
    assert found.regret.tolist() == [30, 0, 0, 0]
    assert found.precision.tolist() == near([0, 1 / 2, 2 / 3, 1])


def test_coefficients_of_the_top_by_hand() -> None:
    # The ten most accurate of 20 networks have scores 10 to 1, the others 11 to 20.
    truth, scores = np.arange(20.0, 0, -1), np.concatenate([np.arange(10.0, 0, -1), np.arange(11.0, 21)])
    found = tops(scores[:, None], truth, (0.45, 0.5, 1.0))
    assert found.tau_top_accuracy[:2].tolist() == near([math.nan, 1])
    assert found.tau_top_score[:2].tolist() == near([math.nan, -1])
    # 45 concordant pairs; 45 within the second half and 100 between the halves are discordant.
    assert found.tau_top_accuracy[2] == near((45 - 145) / 190)


def test_perfect_scores() -> None:
    truth = draw(200, None, 0) + 50
    found = tops(np.exp(truth)[:, None], truth)
    for name in ("precision", "ndcg", "ndcg_relative"):
        assert getattr(found, name).tolist() == near([1] * 100)
    for name in CURVES[-4:]:
        assert getattr(found, name).tolist() == near([math.nan] * 4 + [1] * 96)
    assert found.regret.tolist() == [0] * 100


@given(VALUES, st.sampled_from([lambda v: v**3, lambda v: 3 * v - 7, np.exp]))
@settings(max_examples=30)
def test_curves_only_look_at_the_order_of_scores(values: tuple[Vector, Vector], monotone: Any) -> None:
    x, y = values
    plain, turned = tops(x[:, None], y), tops(-monotone(x)[:, None], y, higher_is_better=False)
    for name in CURVES:
        sign = -1 if name in CURVES[-4:] else 1
        assert getattr(turned, name).tolist() == near((sign * getattr(plain, name)).tolist())


def test_curves_do_not_depend_on_the_order_of_networks() -> None:
    x, y, order = draw(150, None, 0), draw(150, None, 1), np.random.RandomState(0).permutation(150)
    plain, moved = tops(x[:, None], y), tops(x[order, None], y[order])
    assert all(getattr(moved, name).tolist() == near(getattr(plain, name).tolist()) for name in CURVES)


def test_curves_without_scores_are_nan() -> None:
    scores, truth = np.full((20, 2), math.nan), draw(20, None, 0)
    nothing = tops(scores, truth, (0.1, 1))
    assert nothing.n == 0
    assert all(np.isnan(getattr(nothing, name)).all() for name in CURVES)
    scores[:, 1] = truth
    assert tops(scores, truth, (0.1, 1)).precision.tolist() == [1, 1]
    assert tops(np.empty((0, 1)), np.empty(0), (0.1,)).n == 0


def test_regret_is_of_all_networks() -> None:
    scores, truth = np.array([[1.0], [2], [math.nan]]), np.array([70.0, 80, 90])
    found = tops(scores, truth, (1.0,))
    assert (found.n, found.best.tolist(), found.regret.tolist()) == (2, [80], [10])


@pytest.mark.parametrize("shares", [(), (0.0,), (1.1,), (0.5, 0.1), (math.nan,), ((0.1,),)])
def test_faulty_shares_are_refused(shares: Any) -> None:
    with pytest.raises(ValueError, match="shares: expected ascending numbers above 0 and at most 1"):
        tops(np.ones((3, 1)), np.arange(3.0), shares)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 3), (30, 30), (30, 99)])
def test_ndcg_equals_its_definition(n: int, k: int) -> None:
    x, y = draw(n, 7, 0), 90 + draw(n, None, 1)
    x += np.arange(n) / n  # no two are equal
    order, ideal = np.argsort(-x, kind="stable"), np.argsort(-y)

    def percent(accuracy: float) -> float:
        return 2**accuracy - 1

    assert ndcg(x, y, k) == near(gained(y, order, k, percent) / gained(y, ideal, k, percent))
    if n > 1:
        relative = lambda a: (a - y.min()) / np.ptp(y)  # noqa: E731
        assert ndcg(x, y, k, "ndcg_relative") == near(gained(y, order, k, relative) / gained(y, ideal, k, relative))


def test_ndcg_by_hand() -> None:
    # The chosen one is a point worse than the best, so it is worth half; without any accuracy it is worth nothing.
    assert ndcg(np.array([2.0, 1]), np.array([0.0, 100]), 1) == 0
    assert ndcg(np.array([2.0, 1]), np.array([93.0, 94]), 1) == near((2**93 - 1) / (2**94 - 1))
    assert ndcg(np.array([1.0, 2]), np.array([93.0, 94]), 1) == 1
    assert ndcg(np.array([1.0, 2]), np.array([93.0, 94]), 1, higher_is_better=False) == near(0.5)
    assert ndcg(np.array([2.0, 3, 1]), np.array([90.0, 80, 70]), 2, "ndcg_relative") == near(
        (0.5 + 1 / math.log2(3)) / (1 + 0.5 / math.log2(3))
    )
    assert ndcg(np.array([2.0, 3, 1]), np.array([0.9, 0.8, 0.7]), 2, "ndcg_relative") == near(
        (0.5 + 1 / math.log2(3)) / (1 + 0.5 / math.log2(3))
    )


@pytest.mark.parametrize(
    ("truth", "name"),
    [([], "ndcg"), ([-1.0, 50], "ndcg"), ([50.0, 101], "ndcg"), ([0.0, 0], "ndcg"), ([5.0, 5], "ndcg_relative")],
)
def test_ndcg_of_nothing_is_nan(truth: list[float], name: str) -> None:
    assert math.isnan(ndcg(np.arange(float(len(truth))), np.array(truth), 1, name))


def test_choice_by_hand() -> None:
    # The best network scores 5, with one above it, one equal, and two below. Its equal has 70 percent, so the second
    # choice has 80 in the mean.
    scores, truth = np.array([[5.0], [9], [5], [1], [0]]), np.array([90.0, 60, 70, 80, 50])
    found = choose(scores, truth, 2)
    assert asdict(found) == near({"n": 5, "k": 2, "best": 80, "regret": 10, "rank": 2.5, "percentile": 62.5})
    assert asdict(choose(scores, truth, 1)) == near(
        {"n": 5, "k": 1, "best": 60, "regret": 30, "rank": 2.5, "percentile": 62.5}
    )
    worst = choose(scores, truth, 1, higher_is_better=False)
    assert (worst.best, worst.regret, worst.rank, worst.percentile) == (50, 40, 3.5, 37.5)


@given(VALUES, st.integers(1, 50))
def test_rank_of_the_best_is_scipys(values: tuple[Vector, Vector], k: int) -> None:
    x, y = values
    found = choose(x[:, None], y, k)
    assert found.rank == near(stats.rankdata(-x)[y.argmax()])
    if len(x) > 1:
        assert found.percentile == near(stats.percentileofscore(np.delete(x, y.argmax()), x[y.argmax()], "mean"))


def test_choice_of_a_network_without_score() -> None:
    scores, truth = np.array([[1.0, 2], [2, math.nan], [math.nan, 1]]), np.array([70.0, 80, 90])
    found = choose(scores, truth, 1)
    # The best has no score of the first seed, and the lower of two scores of the second.
    assert asdict(found) == near({"n": 3, "k": 1, "best": 75, "regret": 15, "rank": 2, "percentile": 0})
    nothing = choose(np.full((3, 1), math.nan), truth, 1)
    assert nothing.n == 0
    assert all(map(math.isnan, [nothing.best, nothing.regret, nothing.rank, nothing.percentile]))
    assert choose(np.empty((0, 1)), np.empty(0), 1).n == 0
    with pytest.raises(ValueError, match="k: expected at least 1, got 0"):
        choose(scores, truth, 0)


def nb201(folder: Path) -> pd.DataFrame:
    tables = [pd.read_csv(folder / "tables" / "nb201" / f"nb201_{name}.csv") for name in ("core", "zero_cost")]
    return tables[0].merge(tables[1], on="index", validate="one_to_one")


def test_published_tops_of_naslib(real_data: Path) -> None:
    # NAS-Bench-Suite-Zero's own scores and accuracies, CIFAR-10, 9,445 networks; to two digits, since a share of 944.5
    # networks was rounded down there. Among the most accurate and among the highest scores the sign differs.
    table = nb201(real_data).dropna(subset="cifar10_synflow")
    truth = table["cifar10valid_test200_seed888"].to_numpy()
    for proxy, by_accuracy, by_score, precision in [
        ("epe_nas", 0.011, 0.005, 0.243),
        ("fisher", -0.251, -0.122, 0.204),
        ("jacov", 0.096, -0.047, 0.286),
        ("nwot", -0.115, 0.165, 0.305),
        ("synflow", 0.127, 0.071, 0.417),
        ("zen", 0.221, 0.162, 0.090),
    ]:
        found = tops(table[[f"cifar10_{proxy}"]].to_numpy(), truth, (0.1,))
        assert found.n == 9445
        values = [found.tau_top_accuracy[0], found.tau_top_score[0], found.precision[0]]
        assert values == pytest.approx([by_accuracy, by_score, precision], abs=0.006), proxy


def test_published_ndcg_of_vkdnw(real_data: Path) -> None:
    # Table 1 of VKDNW, FLOPs: .745, .576 and .403. Multiply-accumulates have 28 values, and the order of ties is not
    # given; from the worst to the best order of ties it varies by about as much as is left between.
    table = nb201(real_data)
    for name, published in [("cifar10_test200", 0.745), ("cifar100_test200", 0.576), ("imagenet16_test200", 0.403)]:
        value = ndcg(table["mmacs_cifar10_exact"].to_numpy(), table[name].to_numpy(), 1000)
        assert value == pytest.approx(published, abs=0.017)
