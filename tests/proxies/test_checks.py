"""The checks of a proxy find what would make its ranking false."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from zcbench import proxies, spaces
from zcbench.contract import ProxyContract, SpaceContract
from zcbench.proxies import PROXIES
from zcbench.proxies.checks import Report, check
from zcbench.proxies.passes import LOSS, Layers
from zcbench.proxies.registry import Proxy, reads

NUMBER, DIFFER, AGAIN, BESIDE, WRITTEN, DRAWN = range(6)


class TestSnip(ProxyContract):
    name = "snip"


class TestSynflow(ProxyContract):
    name = "synflow"


def report(function: Callable[..., Any]) -> Report:
    contract = ProxyContract()
    networks = [functools.partial(contract.network, place) for place in range(4)]
    return check(Proxy(name="mine", function=function), networks, *contract.batch())


def test_both_contracts_have_one_address() -> None:
    assert SpaceContract is spaces.contract.SpaceContract
    assert ProxyContract is proxies.contract.ProxyContract


def total(layers: Layers) -> float:
    return sum(float(g.abs().sum()) for _, g in layers)


def counter() -> Callable[..., float]:
    calls = itertools.count()
    return lambda layers=reads(LOSS): float(next(calls))


def drawing(layers: Layers = reads(LOSS)) -> float:
    return random.random()


def torch_drawing(layers: Layers = reads(LOSS)) -> float:
    return total(layers) + float(torch.rand(()))


def writing(layers: Layers = reads(LOSS)) -> float:
    return sum(float(w.mul_(2).sum()) for w, _ in layers)


def writing_unseen(layers: Layers = reads(LOSS)) -> float:
    for _, gradient in layers:
        gradient.data.mul_(2)
    return total(layers)


def nothing(layers: Layers = reads(LOSS)) -> None:
    total(layers)


def sometimes_nan(layers: Layers = reads(LOSS)) -> float:
    return float("nan") if len(layers) == 4 else total(layers)


def constant(layers: Layers = reads(LOSS)) -> float:
    return 7.0


@pytest.mark.parametrize(
    ("function", "failing"),
    [
        (lambda layers=reads(LOSS): total(layers), set()),
        (counter(), {AGAIN, BESIDE}),
        (drawing, {NUMBER, DIFFER, DRAWN}),
        (torch_drawing, {NUMBER, DIFFER, DRAWN}),
        (writing, {NUMBER, DIFFER, WRITTEN}),
        (writing_unseen, {BESIDE, WRITTEN}),
        (nothing, {NUMBER, DIFFER}),
        (sometimes_nan, {NUMBER}),
        (constant, {DIFFER}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_misbehaviour_is_found(function: Callable[..., Any], failing: set[int]) -> None:
    found = report(function)
    assert {place for place, finding in enumerate(found.findings) if finding.fault} == failing, found.faults
    assert len(found.scores) == 4


def test_the_messages_say_how_many_and_what() -> None:
    assert report(nothing).faults[0] == (
        "4 of 4 networks have none: error, ProxyError: the proxy returned NoneType, expected a number"
    )
    assert report(sometimes_nan).faults == [
        "1 of 4 networks have none: nan, the definition gives no finite number here"
    ]
    assert "all 4 scores are 7" in report(constant).faults


@pytest.mark.parametrize("name", ["snip", "naswot", "zen", "eznas_a", "meco.opt", "params"])
def test_the_proxies_of_the_package_pass(name: str) -> None:
    contract = ProxyContract()
    networks = [functools.partial(contract.network, place) for place in range(3)]
    assert check(PROXIES[name], networks, *contract.batch()).faults == []


def test_progress_is_counted() -> None:
    seen: list[int] = []
    contract = ProxyContract()
    networks = [functools.partial(contract.network, place) for place in range(3)]
    x, y = contract.batch()
    assert isinstance(x, Tensor)
    check(PROXIES["params"], networks, x, y, counted=seen.append)
    assert seen == [1, 2, 3, 4, 5, 6]
