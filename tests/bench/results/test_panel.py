from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from zcbench.bench.results.panel import Panel, Sample, common_seeds, in_threads, measure, of_recipe, union
from zcbench.bench.stats.bootstrap import resamples
from zcbench.bench.study.recipe import Recipe, Work
from zcbench.errors import ResultsError

N = 40


def panel(scores: np.ndarray, proxy: str = "p", batch_size: int = 16, **changes: object) -> Panel:
    values = scores if scores.ndim == 2 else scores[:, None]
    settings: dict[str, object] = {
        "version": 1,
        "seeds": tuple(range(values.shape[1])),
        "asked": np.ones(values.shape, dtype=bool),
        "higher_is_better": True,
    }
    return Panel(proxy=proxy, batch_size=batch_size, scores=values, **(settings | changes))  # type: ignore[arg-type]


def recipe(accuracies: dict[str, float], seeds: tuple[int, ...] = (0, 1)) -> Recipe:
    work = tuple(Work(seed, 16, ("p", "q")) for seed in seeds)
    return Recipe(
        space="s",
        dataset="d",
        truth="d/test",
        label="made up",
        protocol="2",
        device="cpu",
        torch="2",
        accuracies=accuracies,
        work=work,
        batches={(16, seed): "h" for seed in seeds},
        versions={"p": 3, "q": 1},
        lower=("q",),
        aggregates=(),
        batch_sizes=(16,),
        resamples=30,
    )


def test_every_seed_and_every_resample_is_what_scipy_says() -> None:
    random = np.random.RandomState(0)
    truth = random.normal(size=N)
    scores = truth[:, None] + random.normal(size=(N, 3))
    scores[4, 1] = np.nan
    weights = resamples(N, 20)
    found = measure(panel(scores), truth, weights)
    assert found.n.tolist() == [N, N - 1, N]
    for seed, column in enumerate(scores.T):
        keep = np.isfinite(column)
        x, y = column[keep], truth[keep]
        assert found.rho[seed] == pytest.approx(scipy_stats.spearmanr(x, y).statistic, rel=1e-12)
        assert found.tau[seed] == pytest.approx(scipy_stats.kendalltau(x, y).statistic, rel=1e-12)
        for row in (0, 7, 19):
            drawn = np.repeat(np.flatnonzero(keep), weights[row, keep].astype(int))
            tau = scipy_stats.kendalltau(column[drawn], truth[drawn]).statistic
            assert found.drawn_tau[seed, row] == pytest.approx(tau, rel=1e-9)
    low, high = found.interval("tau")
    assert (low, high) == pytest.approx(np.quantile(found.drawn_tau.mean(0), [0.025, 0.975]))


@pytest.mark.parametrize(
    "scores", [np.full((N, 2), np.nan), np.ones((N, 2)), np.full((N, 2), np.inf)], ids=["NaN", "constant", "infinite"]
)
def test_what_says_nothing_has_no_coefficient(scores: np.ndarray) -> None:
    found = measure(panel(scores), np.arange(float(N)), resamples(N, 10))
    assert np.isnan(found.rho).all()
    assert np.isnan(found.tau).all()
    assert np.isnan(found.drawn_tau).all()
    assert np.isnan(found.interval("rho")).all()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_networks_have_no_coefficient(n: int) -> None:
    found = measure(panel(np.arange(float(n))), np.arange(float(n)), resamples(n, 10))
    assert found.n.tolist() == [n]
    assert np.isnan(found.rho).all()


def test_equal_seeds_are_worked_out_once_and_stay_equal() -> None:
    column = np.random.RandomState(0).normal(size=N)
    found = measure(panel(np.stack([column] * 3, 1)), np.arange(float(N)), resamples(N, 10))
    assert (found.drawn_rho == found.drawn_rho[0]).all()
    assert len(set(found.tau.tolist())) == 1


def test_a_sample_of_a_board_leaves_out_networks_without_accuracy() -> None:
    accuracies = {"a": 1.0, "b": np.nan, "c": 3.0, "d": 2.0}
    rows = pd.DataFrame(
        [
            {"proxy": proxy, "batch_size": 16, "seed": seed, "architecture": name, "value": value, "version": version}
            for proxy, version in (("p", 3), ("q", 1))
            for seed in (1, 0)
            for name, value in zip("dcba", (4.0 + seed, 3.0, 2.0, np.nan), strict=True)
        ]
    )
    found = of_recipe(recipe(accuracies), rows)
    assert found.networks == ("a", "c", "d")
    assert found.truth.tolist() == [1, 3, 2]
    assert found.weights.shape == (30, 3)
    assert found.weights.tolist() == resamples(4, 30)[:, [0, 2, 3]].tolist()
    p, q = found.panels
    assert (p.proxy, p.version, p.seeds, p.sign) == ("p", 3, (0, 1), 1)
    assert (q.proxy, q.version, q.sign) == ("q", 1, -1)
    assert np.array_equal(p.scores, [[np.nan, np.nan], [3, 3], [4, 5]], equal_nan=True)
    assert p.asked.all()


def sample(networks: str, truth: list[float], *panels: Panel) -> Sample:
    values = np.asarray(truth, dtype=float)
    return Sample(tuple(networks), values, resamples(len(values), 25), panels)


def test_a_union_knows_which_seed_drew_which_network() -> None:
    first = sample("bac", [2, 1, 3], panel(np.asarray([20.0, 10, np.nan]), seeds=(5,)))
    second = sample("cd", [3, 4], panel(np.asarray([31.0, 41]), seeds=(2,)), panel(np.ones(2), "q", seeds=(2,)))
    found = union([first, second])
    assert found.networks == ("a", "b", "c", "d")
    assert found.truth.tolist() == [1, 2, 3, 4]
    assert found.weights.shape == (25, 4)
    p, q = found.panels
    assert p.seeds == (2, 5)
    nan = np.nan
    assert np.array_equal(p.scores, [[nan, 10], [nan, 20], [31, nan], [41, nan]], equal_nan=True)
    assert p.asked.tolist() == [[False, True], [False, True], [True, True], [True, False]]
    assert (q.proxy, q.seeds, int(q.asked.sum())) == ("q", (2,), 2)


def test_versions_are_never_mixed() -> None:
    old, new = (sample("abc", [1, 2, 3], panel(np.arange(3.0), seeds=(v,), version=v)) for v in (1, 2))
    found = union([old, new])
    assert [(p.version, p.seeds) for p in found.panels] == [(1, (1,)), (2, (2,))]
    assert [found.label(p) for p in found.panels] == ["p v1", "p v2"]


def test_a_network_with_two_accuracies_is_named() -> None:
    first, second = sample("ab", [1, 2]), sample("bc", [2.5, 3])
    with pytest.raises(ResultsError, match=r"network b has accuracy 2.0 in one run and 2.5 in another") as caught:
        union([first, second])
    assert len(str(caught.value).splitlines()) == 1


def test_labels_say_what_tells_panels_apart() -> None:
    found = sample(
        "abc", [1, 2, 3], panel(np.arange(3.0), "p", 1), panel(np.arange(3.0), "p", 2), panel(np.ones(3), "q")
    )
    assert [found.label(p) for p in found.panels] == ["p @1", "p @2", "q"]


def test_only_common_seeds_are_paired() -> None:
    a = panel(np.asarray([[1.0, 2, 3]]), seeds=(0, 1, 2))
    b = panel(np.asarray([[30.0, 10]]), seeds=(2, 0))
    assert [(a.seeds[i], b.seeds[j]) for i, j in common_seeds(a, b)] == [(0, 0), (2, 2)]
    assert [(a.scores[0, i], b.scores[0, j]) for i, j in common_seeds(a, b)] == [(1, 10), (3, 30)]


def test_threads_keep_the_order() -> None:
    assert in_threads(lambda value: value**2, range(50)) == [value**2 for value in range(50)]
