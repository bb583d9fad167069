from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from zcbench.proxies import AGGREGATES, PROXIES, Proxy
from zcbench.proxies.registry import COSTS, Score
from zcbench.tools import cost
from zcbench.tools.cards import cards


def test_costs_come_with_their_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    some = {name: PROXIES[name] for name in ("params", "synflow", "jacob_cov", "snip")}
    monkeypatch.setattr(cost, "PROXIES", some)
    monkeypatch.setattr(cost, "AGGREGATES", {"vote": AGGREGATES["vote"]})
    monkeypatch.setattr(cost, "BATCH", 2)
    monkeypatch.setattr(cost, "ROUNDS", 1)
    measured = cost.measure()
    ms = measured["ms"]
    assert set(ms) == {*some, "vote"}
    assert ms["vote"] == pytest.approx(ms["synflow"] + ms["jacob_cov"] + ms["snip"], abs=0.02)
    assert "2 images" in measured["recipe"]
    assert measured["environment"]["torch"]


def test_slow_proxies_run_once_and_others_give_their_median(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"params": iter([0.003, 0.001, 0.002]), "snip": iter([6.0])}

    def timed(net: Any, x: Any, y: Any, proxies: Sequence[Proxy]) -> list[Score]:
        return [Score(p.name, p.version, 0.0, "ok", "", next(seconds[p.name])) for p in proxies]

    monkeypatch.setattr(cost, "score_all", timed)
    monkeypatch.setattr(cost, "PROXIES", {name: PROXIES[name] for name in seconds})
    monkeypatch.setattr(cost, "AGGREGATES", {})
    assert cost.measure()["ms"] == {"params": 2.0, "snip": 6000.0}
    assert [list(rest) for rest in seconds.values()] == [[], []]


def test_the_committed_costs_are_whole() -> None:
    measured = json.loads(COSTS.read_text("utf-8"))
    ms = measured["ms"]
    assert list(ms) == [card.name for card in cards()]
    for card in AGGREGATES.values():
        assert ms[card.name] == pytest.approx(sum(ms[member] for member in card.members), abs=0.02)
    assert f"network {cost.NETWORK}, {cost.BATCH} images" in measured["recipe"]
    assert {"torch", "cpu"} <= set(measured["environment"])
