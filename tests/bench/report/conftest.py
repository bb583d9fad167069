from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from zcbench.bench.report.beside import Beside, Program, Reached, Search
from zcbench.bench.results.board import Board
from zcbench.bench.results.overview import Leaderboard, overview
from zcbench.bench.results.pairs import across
from zcbench.bench.results.published.changes import of_standings
from zcbench.bench.results.standing import Standing, stand
from zcbench.bench.study.recipe import Recipe, Work

N = 60
#: How far the made-up scores of a proxy are from the accuracies. `ntk_condition` is better when it is low, `mine` is a
#: proxy of the user, and `flat` has equal scores for all networks.
NOISE = {"zen": 4.0, "synflow": 1.0, "naswot": 2.0, "grasp": 30.0, "ntk_condition": 3.0, "mine": 6.0, "flat": 0.0}


def standing(space: str, seed: int, *, without: str = "", seeds: tuple[int, ...] = (0,)) -> Standing:
    """A board of made-up networks and scores."""
    random = np.random.RandomState(100 + seed)
    truth = 80 + 10 * random.random_sample(N)
    names = tuple(name for name in NOISE if name != without)
    work = tuple(Work(s, 16, names) for s in seeds)
    recipe = Recipe(
        space=space,
        dataset="cifar10",
        truth="cifar10/test-200",
        label="made up",
        protocol="2",
        device="cpu",
        torch="2",
        accuracies={f"<a{i}>": float(value) for i, value in enumerate(truth)},
        work=work,
        batches={(16, s): "h" for s in seeds},
        versions=dict.fromkeys(names, 1),
        lower=("ntk_condition",),
        aggregates=(),
        batch_sizes=(16,),
        resamples=40,
    )
    frames = []
    for place, (name, noise) in enumerate(NOISE.items()):
        for s in seeds if name in names else ():
            values = np.zeros(N) if name == "flat" else truth + noise * random.standard_normal(N)
            values = -values if name == "ntk_condition" else values
            values[:3] = np.nan if name == "grasp" else values[:3]
            frame = pd.DataFrame({"architecture": list(recipe.accuracies), "value": values})
            status = np.where(np.isfinite(values), "ok", "nan")
            frames.append(frame.assign(proxy=name, seed=s, status=status, wall_s=10.0 ** (place - 4)))
    rows = pd.concat(frames, ignore_index=True).assign(
        space=space, dataset="cifar10", batch_hash="h", batch_size=16, version=1, protocol="2", device="cpu",
        torch="2", message="", peak_mib=0.0,
    )  # fmt: skip
    runs = {f"training {k}": truth + random.standard_normal(N) for k in range(3)}
    sizes = {"params": truth + 5 * random.standard_normal(N), "macs": np.arange(N * 1.0), **runs}
    return stand(Board(f"{space} board", f"{space} on cifar10, {N} networks", recipe, sizes, ({},), ()), rows)


@pytest.fixture(scope="session")
def leaderboard() -> Leaderboard:
    """Three boards of made-up scores: the second lacks a proxy, and the third has two seeds."""
    made = [standing("nb201", 0), standing("nb101", 1, without="naswot"), standing("nds_darts", 2, seeds=(0, 1))]
    found = across([(s.board, s.sample) for s in made])
    return Leaderboard(made, overview(made), [s.ablation for s in made if s.ablation], *found)


@pytest.fixture(scope="session")
def beside(leaderboard: Leaderboard) -> Beside:
    """A former version without `mine`, in which `zen` had a tau lower by .125; a search; two programs."""
    rows = [row for row in of_standings(leaderboard.standings) if row.proxy != "mine"]
    former = [dataclasses.replace(row, tau=row.tau - 0.125) if row.proxy == "zen" else row for row in rows]
    nothing = (math.nan,) * 3
    methods = (
        Reached("random", 20, 100, 0, (93.5, 93.0, 94.0), nothing, math.nan, (1, 10, 100),
                ((90.0, 89.0, 91.0), (92.0, 91.5, 92.5), (93.5, 93.0, 94.0))),
        Reached("aging.warmup zen", 20, 100, 200, (94.0, 93.8, 94.2), (0.5, 0.1, 0.9), 15.5, (1, 10, 100),
                ((92.0, 91.0, 93.0), (93.0, 92.5, 93.5), (94.0, 93.8, 94.2))),
    )  # fmt: skip
    program = Program(
        "mine", "exp of T1_D and T3", "exp(add(T1_D, T3))", ["exp", ["add", ["T1_D"], ["T3"]]],
        {"T1_D": "the input of the ReLU, on images", "T3": "the weight of the convolution"},
        {"exp": "exp(A)."}, True, {"tau on nb201": 0.6},
    )  # fmt: skip
    other = dataclasses.replace(program, name="evolved-1", title="abs of T3", text="abs(T3)", tree=["abs", ["T3"]])
    search = Search("nb201 on cifar10, test", 94.4, ("20 repeats", "valid guides"), methods)
    return Beside(tuple(former), (search,), (program, other))
