from __future__ import annotations

import pytest
from zcbench.datasets import TASKS
from zcbench.tools.nb201 import limits
from zcbench.tools.nb201.limits import QUICKSTART, THIRTEEN, naslib, ntk, quickstart, shapes


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    small = limits.batch(4, 16)
    monkeypatch.setattr(limits, "batch", lambda images, side=16: small)
    monkeypatch.setattr(limits, "networks", lambda count: [13714, 10676, 15][:count])


def test_the_proxies_are_those_of_the_quickstart_and_of_naslib() -> None:
    assert QUICKSTART[-1] == "eznas_a"  # which is left out to see what determinants take
    first = {"epe_nas", "fisher", "macs", "grad_norm", "grasp", "jacob_cov", "l2_norm"}
    assert set(THIRTEEN) == first | {"naswot", "params", "plain", "snip", "synflow", "zen"}


def test_every_section_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(limits.DATA) <= set(TASKS)
    monkeypatch.setattr(limits, "DATA", ("imagenet16-120",))
    assert [line.split(":")[0] for line in naslib(2)] == [*limits.DATA, "All"]
    assert len(list(quickstart(1))) == 3
    assert "on 2 networks" in next(ntk(2))
    assert next(shapes(1)).startswith("The record of 2 images takes ")
