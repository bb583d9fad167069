"""NSGA-II: parents and offspring compete together, and the front is better than that of random networks."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ConfigError
from zcbench.evolution.search.asks import METHODS, Score, Setting
from zcbench.evolution.search.config import SearchConfig
from zcbench.evolution.search.untrained.pareto import hypervolume
from zcbench.spaces import SPACES

TASK = TASKS["cifar10"]
SPACE = SPACES["nb201"](None)


def score(network: str) -> float:
    """Return a score that skips raise, which cost nothing, and poolings lower; some networks have none."""
    if network.startswith("|none~0|+|none~0|none"):
        return math.nan
    return network.count("skip") + 2.0 * network.count("conv_3x3") - network.count("pool")


def played(config: SearchConfig, method: str, seed: int = 0) -> list[list[str]]:
    """Play a search with quick scores, and return its generations."""
    found: list[list[str]] = []
    player = METHODS[method].search(Setting(SPACE, TASK, "snip", config, random.Random(seed)))
    answer: Any = None
    while True:
        try:
            question = player.send(answer)
        except StopIteration:
            return found
        assert isinstance(question, Score)
        found.append(list(question.networks))
        answer = [score(network) for network in question.networks]


def volume(networks: list[str]) -> float:
    known = [network for network in networks if not math.isnan(score(network))]
    values, sizes = np.array([(score(n), SPACE.macs(n, TASK)) for n in known], dtype=np.float64).T
    return hypervolume(values, sizes, 0.0, 2.3e8)


def test_evaluations_are_counted_and_no_network_is_evaluated_twice() -> None:
    generations = played(SearchConfig(evaluations=70, population=20), "nsga2")
    assert [len(generation) for generation in generations] == [20, 20, 20, 10]
    networks = list(itertools.chain(*generations))
    assert len(set(networks)) == 70


def test_its_front_is_better_than_that_of_random_networks() -> None:
    """Over five seeds, with as many networks."""
    config = SearchConfig(evaluations=200, population=20)
    gains = [
        volume(list(itertools.chain(*played(config, "nsga2", seed))))
        - volume(list(itertools.chain(*played(config, "nsga2.random", seed))))
        for seed in range(5)
    ]
    assert min(gains) > 0


def test_the_same_seed_gives_the_same_generations() -> None:
    config = SearchConfig(evaluations=60, population=20)
    assert played(config, "nsga2", 3) == played(config, "nsga2", 3) != played(config, "nsga2", 4)


def test_a_search_ends_when_nothing_is_new() -> None:
    """Networks under this limit have no convolution: each of the six edges is one of three operations."""
    macs = SPACE.macs("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|", TASK)
    generations = played(SearchConfig(evaluations=5000, population=20, max_macs=macs), "nsga2")
    networks = list(itertools.chain(*generations))
    assert all("conv" not in network for network in networks)
    assert len(set(networks)) == len(networks) <= 3**6


def test_impossible_populations_are_refused_on_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^population: expected 2 networks or more, got 1$"):
        METHODS["nsga2"].check(SearchConfig(population=1), SPACE)
    with pytest.raises(
        ConfigError, match=r"^objective: networks of nb201 have no depth, only params, macs, latency_ms$"
    ):
        played(SearchConfig(objective="depth"), "nsga2")
    with pytest.raises(
        ConfigError,
        match=r"^max_params, max_macs: expected limits that a network of nb201 keeps, got none that does in 1",
    ):
        played(SearchConfig(evaluations=5, population=5, max_params=10**7, max_macs=1), "nsga2")
    # These limits leave the networks of 3 operations on 6 edges, of which fewer than 729 are drawn.
    macs = SPACE.macs("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|", TASK)
    with pytest.raises(
        ConfigError, match=r"^population: expected at most \d{1,3} networks, as many as were found that keep the"
    ):
        played(SearchConfig(evaluations=900, population=900, max_macs=macs), "nsga2")
