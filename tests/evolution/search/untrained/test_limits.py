"""Limits of searches."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ConfigError
from zcbench.evolution.search.config import SearchConfig
from zcbench.evolution.search.untrained.limits import Limits, check_limits, limits
from zcbench.spaces import SPACES
from zcbench.spaces.zen.space import NAMED

TASK = TASKS["cifar100"]
START = NAMED["start-cifar"]  # 102,572 parameters, 101,721 as the authors count, 6 layers


def allowed(space: str = "zen_plain", **changes: Any) -> Limits:
    return limits(SearchConfig(**changes), SPACES[space](None), TASK)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_params", 102_572), ("max_budget_params", 101_721), ("max_layers", 6), ("max_macs", 6_751_844)],
)
@pytest.mark.parametrize("space", ["zen", "zen_plain"])
def test_limits_are_held_against_the_network_that_is_trained(name: str, value: float, space: str) -> None:
    """Networks that are scored without shortcuts have fewer parameters; what is limited is the trained network."""
    assert not allowed(space, **{name: value}).broken(START)
    fault = f"{name}: expected at most {value - 1:,}, got {value:,}"
    assert allowed(space, **{name: value - 1}).broken(START) == fault
    assert not allowed(space).broken(START)


def test_wrong_limits_are_refused_on_one_line() -> None:
    with pytest.raises(
        ConfigError, match=r"^max_layers: networks of nb201 have no layers, only params, macs, latency_ms$"
    ):
        allowed("nb201", max_layers=3)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match=r"^max_macs: expected 0 for no limit, or more, got "):
            allowed(max_macs=wrong)


def test_wrong_searches_are_refused_on_one_line() -> None:
    space = SPACES["nb201"](None)
    for name in ("evaluations", "proposals"):
        with pytest.raises(ConfigError, match=f"^{name}: expected 1 or more, got 0$"):
            check_limits(dataclasses.replace(SearchConfig(), **{name: 0}), space)
    many = SearchConfig(population=15_626)
    with pytest.raises(
        ConfigError, match=r"^population: expected at most 15625 networks, as many as nb201 has, got 15626$"
    ):
        check_limits(many, space)
    check_limits(many, SPACES["zen"](None))  # it has no end
    with pytest.raises(ConfigError, match=r"^space: expected one with mutations of a network, got nb101$"):
        check_limits(SearchConfig(), SPACES["nb101"](None))
    with pytest.raises(ConfigError, match=r"^proxy: expected one whose scores .*, got az_nas, which ranks a pool$"):
        check_limits(SearchConfig(proxy="az_nas"), space)
