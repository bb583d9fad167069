from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from zcbench.bench.results.board import Board
from zcbench.bench.results.overview import Overall, overview
from zcbench.bench.results.standing import Standing, stand
from zcbench.bench.study.recipe import Recipe, Work

N = 60


def standing(name: str, scores: dict[str, np.ndarray], truth: np.ndarray, **changes: Any) -> Standing:
    """A board of made-up networks and scores; `lower` names proxies whose lowest scores are the best."""
    names = tuple(scores)
    settings: dict[str, Any] = {"resamples": 100, "lower": ()} | changes
    sizes = settings.pop("sizes", {})
    recipe = Recipe(
        space=name,
        dataset="d",
        truth="d/test",
        label="made up",
        protocol="2",
        device="cpu",
        torch="2",
        accuracies={f"a{i}": float(value) for i, value in enumerate(truth)},
        work=(Work(0, 16, names),),
        batches={(16, 0): "h"},
        versions=dict.fromkeys(names, 1),
        aggregates=(),
        batch_sizes=(16,),
        **settings,
    )
    rows = pd.concat([
        pd.DataFrame({"architecture": list(recipe.accuracies), "value": values}).assign(
            space=name, dataset="d", batch_hash="h", batch_size=16, seed=0, proxy=proxy, version=1, protocol="2",
            device="cpu", torch="2", status=["ok" if math.isfinite(v) else "nan" for v in values], message="",
            wall_s=0.1 if proxy == "good" else 0.3, peak_mib=0.0,
        )
        for proxy, values in scores.items()
    ])  # fmt: skip
    known = {"params": np.arange(N * 1.0), "macs": np.arange(N * 1.0)[::-1].copy()} | sizes
    return stand(Board(name, name, recipe, known, ({},), ()), rows)


def made(seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    random = np.random.RandomState(100 + seed)  # the baseline `random` has the seed of the scores
    truth = 50 + 10 * random.random_sample(N)
    noise = random.standard_normal((3, N))
    return truth, {"good": truth + noise[0], "fair": truth + 8 * noise[1], "bad": -truth + 5 * noise[2]}


def by_name(found: list[Overall]) -> dict[str, Overall]:
    return {row.proxy: row for row in found}


def test_the_overview_by_hand() -> None:
    boards = []
    for seed in (0, 1):
        truth, scores = made(seed)
        boards.append(standing(f"board-{seed}", scores, truth))
    found = overview(boards)
    rows = by_name(found)
    assert found[0].proxy == "good"
    assert {*rows} == {"good", "fair", "bad", "params", "macs", "random"}
    for row in found:
        taus = {name: [r.claimed_tau for s in boards for r in s.rankings if r.proxy == name] for name in rows}
        ranks = [1 + sum(taus[other][b] > taus[row.proxy][b] for other in rows) for b in (0, 1)]
        assert row.mean_rank == pytest.approx(np.mean(ranks))
        assert row.mean_rank_low <= row.mean_rank <= row.mean_rank_high
        assert row.lowest_tau == min(taus[row.proxy])
        assert len(row.cells) == 2
    assert [row.mean_rank for row in found] == sorted(row.mean_rank for row in found)
    assert (rows["good"].not_told_from_best, rows["bad"].not_told_from_best) == (2, 0)
    assert rows["good"].ms == pytest.approx(100)


def test_a_proxy_that_a_board_lacks_has_no_mean_rank() -> None:
    truth, scores = made()
    full = [standing("one", scores, truth), standing("two", scores, truth)]
    more = [standing("one", scores | {"extra": truth.copy()}, truth), full[1]]
    rows = by_name(overview(more))
    assert math.isnan(rows["extra"].mean_rank)
    assert math.isnan(rows["extra"].lowest_tau)
    assert len(rows["extra"].cells) == 1
    flat = rows["extra"].flat()
    assert [flat[name] for name in ("mean_rank", "mean_rank_low", "lowest_tau")] == ["", "", ""]
    assert (flat["boards"], flat["boards_with_tau"], flat["blank"]) == (1, 1, "not scored on 1 of 2 boards")
    assert rows["good"].blank == rows["good"].flat()["blank"] == ""
    assert overview(more)[-1].proxy == "extra"
    assert rows["good"].mean_rank == 1.5


def test_a_proxy_without_a_coefficient_is_the_last() -> None:
    truth, scores = made()
    rows = by_name(overview([standing("one", scores | {"same": np.ones(N)}, truth)]))
    assert rows["same"].mean_rank == max(row.mean_rank for row in rows.values()) == 7
    assert (rows["same"].mean_rank_low, rows["same"].mean_rank_high) == (7, 7)
    assert rows["same"].cells[next(iter(rows["same"].cells))].place is None


@pytest.mark.parametrize("turned", [False, True])
def test_without_a_tau_on_one_board_there_is_no_lowest_tau(*, turned: bool) -> None:
    """Whichever board comes first: its tau on the others is not the lowest over all."""
    truth, scores = made()
    boards = [standing("one", scores | {"half": np.ones(N)}, truth), standing("two", scores | {"half": truth}, truth)]
    row = by_name(overview(boards[::-1] if turned else boards))["half"]
    assert math.isnan(row.lowest_tau)
    assert row.mean_rank == pytest.approx((7 + 1) / 2)
    assert (row.boards_with_tau, row.blank) == (1, "no tau on 1 of 2 boards")


def test_lower_is_better_counts_as_it_claims() -> None:
    truth, scores = made()
    rows = by_name(overview([standing("one", scores | {"turned": -scores["good"]}, truth, lower=("turned",))]))
    assert rows["turned"].lowest_tau == rows["good"].lowest_tau > 0
    assert rows["turned"].mean_rank == rows["good"].mean_rank == 1


def test_a_census_has_ranks_without_doubt() -> None:
    truth, scores = made()
    board = standing("one", scores, truth, resamples=0)
    for ranking, place in zip(board.rankings, board.places, strict=True):
        assert place is not None, ranking.proxy
        assert place.low == place.rank == place.high
    row = overview([board])[0]
    assert (row.mean_rank, row.mean_rank_low, row.mean_rank_high) == (1, 1, 1)


def test_few_networks_have_neither_coefficient_nor_place() -> None:
    truth, scores = made()
    few = {name: np.where(np.arange(N) < 9, values, math.nan) for name, values in scores.items()}
    board = standing("one", {"good": scores["good"], "few": few["fair"]}, truth)
    places = {r.proxy: (r.correlation.rho, place) for r, place in zip(board.rankings, board.places, strict=True)}
    assert math.isnan(places["few"][0])
    assert places["few"][1] is None


def test_the_ceiling_is_that_of_the_trainings() -> None:
    truth, scores = made()
    random = np.random.RandomState(5)
    runs = {f"training {i}": truth + 0.1 * random.standard_normal(N) for i in (1, 2, 3)}
    board = standing("one", scores, truth, sizes=runs)
    assert board.ceiling is not None
    assert 0.99 < board.ceiling.rho < 1
    assert board.top_ceiling is not None
    assert board.ceiling.n == N
    two = standing("one", scores, truth, sizes={"training 1": runs["training 1"], "training 2": runs["training 2"]})
    assert two.ceiling is not None
    assert two.top_ceiling is None
    assert standing("one", scores, truth).ceiling is None
