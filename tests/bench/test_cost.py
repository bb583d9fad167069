from __future__ import annotations

import pytest
from zcbench.bench import cost
from zcbench.proxies import AGGREGATES, PROXIES


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
