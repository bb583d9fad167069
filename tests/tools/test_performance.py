from __future__ import annotations

import pytest
from zcbench.proxies import PROXIES
from zcbench.proxies.passes.core import chain, expanded
from zcbench.tools import performance


def test_the_page_has_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performance, "NETWORKS", (1835, 6111))
    monkeypatch.setattr(performance, "IMAGES", (2, 4))
    monkeypatch.setattr(performance, "ROUNDS", 1)
    some = ("params", *performance.ZERO_COST_NAS)
    monkeypatch.setattr(performance, "PROXIES", {name: PROXIES[name] for name in some})
    monkeypatch.setattr(performance, "product_rate", lambda: 5e10)
    monkeypatch.setattr(performance, "copy_rate", lambda: 1e10)
    page = performance.page()
    for name in some:
        assert f"\n| `{name}` | " in page
    assert "| *the eight of zero-cost-nas together* | " in page
    assert "\n| HessianProduct, loss | " in page
    assert "\n| 6111 | 4 | " in page
    groups = [line.split(" | ") for line in page.splitlines() if line.startswith("| convolutions, backward")]
    assert len(groups) == 1
    assert all(cell.strip(" |").endswith("%") for cell in groups[0][1:])
    assert max(map(len, page.splitlines())) < 140


def test_passes_that_differ_have_different_names() -> None:
    needs = [need for proxy in PROXIES.values() for need in expanded(proxy.needs)]
    passes = {source for need in needs for source in chain(need.source)}
    names = {performance.named(source) for source in passes}
    # A forward pass with and without a graph has one name.
    assert len(passes) - len(names) <= 2


def test_what_takes_long_runs_once() -> None:
    runs = []

    def run() -> None:
        runs.append(sum(range(10_000)))

    assert performance.seconds(run) > 0
    assert len(runs) == performance.ROUNDS
