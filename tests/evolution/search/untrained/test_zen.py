"""The evolution of Zen-NAS: its loop, its limits, and that workers and kills do not change what it finds."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ArchitectureError, ConfigError
from zcbench.evolution.search import scores as scores_module
from zcbench.evolution.search.asks import METHODS, Score, Setting
from zcbench.evolution.search.config import SearchConfig
from zcbench.evolution.search.search import search
from zcbench.spaces import SPACES, Space
from zcbench.spaces.zen.blocks import layers, parse
from zcbench.spaces.zen.mutation import mutate
from zcbench.spaces.zen.space import NAMED

TASK = TASKS["cifar100"]
START = NAMED["start-cifar"]
SPACE = SPACES["zen_plain"](None)


def length(network: str) -> float:
    """Return a score that is quick, has ties, and is NaN for some networks."""
    return math.nan if "K7K7" in network else float(len(network))


def played(config: SearchConfig, method: str = "zen", seed: int = 0, space: Space = SPACE) -> list[str]:
    """Play a search with quick scores, and return all networks that it has asked for."""
    asked: list[str] = []
    player = METHODS[method].search(Setting(space, TASK, "zen", config, random.Random(seed)))
    answer: Any = None
    while True:
        try:
            question = player.send(answer)
        except StopIteration:
            return asked
        assert isinstance(question, Score)
        asked += question.networks
        answer = [length(network) for network in question.networks]


def by_hand(evaluations: int, size: int, limit: float, seed: int) -> list[str]:
    """The loop of the authors' `evolution_search.py`, one network at a time."""
    rng = random.Random(seed)
    population: list[tuple[float, str]] = []
    asked: list[str] = []
    for _ in range(evaluations):
        while len(population) > size:
            scores = [score for score, _ in population]
            population.pop(scores.index(min(scores)))
        few = len(population) <= 10
        network = mutate(rng, START, 1) if few else mutate(rng, rng.choice(population)[1], 2)
        if SPACE.limited_sizes(network, TASK)["params"] > limit:
            continue
        asked.append(network)
        population.append((-9999 if math.isnan(length(network)) else length(network), network))
    return asked


@pytest.mark.parametrize("seed", range(3))
def test_one_proposal_at_a_time_is_the_loop_of_the_authors(seed: int) -> None:
    config = SearchConfig(evaluations=150, population=20, proposals=1, max_params=3e5)
    asked = played(config, seed=seed)
    assert asked == by_hand(150, 20, 3e5, seed)
    assert len(asked) < 150  # what breaks a limit is not scored, and counts


@settings(max_examples=12)
@given(
    st.integers(0, 2**32),
    st.integers(2 * 10**5, 10**6),
    st.integers(8, 30),
    st.integers(10**7, 10**9),
    st.sampled_from(["zen", "zen.random", "nsga2", "nsga2.random"]),
)
def test_no_network_breaks_a_limit(seed: int, params: int, depth: int, macs: int, method: str) -> None:
    """The sizes of the largest are counted on the network that is trained, without the closed form of the space."""
    config = SearchConfig(evaluations=24, population=12, max_params=params, max_layers=depth, max_macs=macs)
    trained = SPACES["zen"](None)
    asked = played(config, method, seed)
    for network in asked:
        assert layers(parse(network)) <= depth
    if asked:
        largest = max(asked, key=lambda network: trained.params(network, TASK))
        sizes = Space.sizes_of(trained, largest, TASK)
        assert sizes.params <= params
        assert sizes.macs <= macs


def test_selection_keeps_the_best_scores() -> None:
    """With the length of the text as the score, selection finds longer texts than the same walk without selection."""
    config = SearchConfig(evaluations=400, population=20, max_layers=40)
    assert max(map(len, played(config))) > max(map(len, played(config, "zen.random")))


def test_other_spaces_are_searched_by_the_same_loop() -> None:
    space = SPACES["nb201"](None)
    limit = space.macs(space.start, TASK)
    asked = played(SearchConfig(evaluations=100, population=11, max_macs=limit), space=space)
    assert 20 < len(asked) < 100
    assert all(space.macs(network, TASK) <= limit for network in asked)


def test_impossible_searches_are_refused_on_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^max_params: expected at most 1,000, got 102,572 of the start SuperConv"):
        played(SearchConfig(max_params=1000))
    with pytest.raises(ArchitectureError, match=r"^architecture 'nonsense': at character 1: expected "):
        played(SearchConfig(start="nonsense", max_params=1e6))
    with pytest.raises(ConfigError, match=r"^population: expected more than 10 networks, .*, got 10$"):
        METHODS["zen"].check(SearchConfig(population=10), SPACE)


@pytest.fixture
def real(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A function that runs a small search with the proxy zen, and returns the description of what it found."""

    def run(folder: str, **changes: Any) -> dict[str, Any]:
        out = tmp_path / folder
        config = SearchConfig(
            method=["zen"],
            space="zen_plain",
            dataset="noise-cifar100",
            proxy=["zen"],
            repeats=1,
            evaluations=14,
            proposals=4,
            max_params=2e5,
            max_macs=2e7,
            batch_size=2,
            results=str(out / "results"),
            out=str(out / "out"),
            tracker="none",
        )
        search(dataclasses.replace(config, **changes))
        description: dict[str, Any] = json.loads((out / "out" / "zen_zen.json").read_text())
        return description

    return run


def test_workers_and_kills_do_not_change_what_is_found(
    real: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = real("one", workers=1)
    assert first["space"] == "zen"
    assert first["found"]["params"] <= 2e5
    assert real("two", workers=2) == first

    compute, questions = scores_module.Scores._compute, iter(range(100))

    def killed(self: scores_module.Scores, *args: Any) -> None:
        if next(questions) == 2:
            raise KeyboardInterrupt
        compute(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(scores_module.Scores, "_compute", killed)
        with pytest.raises(KeyboardInterrupt):
            real("killed", workers=1)
    assert real("killed", workers=1) == first
    assert real("seed", workers=1, seed=1) != first


@pytest.mark.slow
def test_ray_finds_the_same(real: Callable[..., dict[str, Any]]) -> None:
    pytest.importorskip("ray")
    assert real("ray", engine="ray") == real("local")
