"""The Python code of documents runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import zcbench
from torch import nn
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe

ROOT = Path(zcbench.__file__).parent


def blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    known = set(PROXIES)
    yield
    for name in set(PROXIES) - known:
        PROXIES._items.pop(name)


def test_the_page_on_own_proxies_runs(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    # Dataclasses look their module up.
    names: dict[str, object] = {"__name__": __name__}
    for block in blocks("docs/own_proxies.md"):
        exec(compile(block, "docs/own_proxies.md", "exec"), names)
    scores = zcbench.score(net(), *batch, proxies=["worst_layer", "share_on", "snip"])
    assert {score.status for score in scores.values()} == {"ok"}
    found = Probe(net(), *batch).read(names["LogitsWithoutWeights"]())  # type: ignore[operator]
    assert found.shape == (8, 10)
    assert not found.any()


def test_the_page_on_own_networks_runs() -> None:
    names: dict[str, object] = {"__name__": __name__}
    for block in blocks("docs/own_networks.md"):
        exec(compile(block, "docs/own_networks.md", "exec"), names)
    assert sorted(names["networks"]) == ["width 16", "width 4", "width 8"]  # type: ignore[call-overload]
    assert names["ranked"].order("params") == ["large", "small"]  # type: ignore[attr-defined]


def test_the_proxy_of_the_readme_runs(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    (block,) = [block for block in blocks("README.md") if "@register" in block]
    exec(compile(block, "README.md", "exec"), {"__name__": "a_document"})
    assert zcbench.score(net(), *batch, proxies=["worst_layer"])["worst_layer"].status == "ok"


def test_the_data_module_of_the_readme_runs() -> None:
    (block,) = [block for block in blocks("README.md") if "LightningDataModule" in block]
    names: dict[str, object] = {"__name__": "a_document"}
    exec(compile(block, "README.md", "exec"), names)
    made = names["Blobs"]()  # type: ignore[operator]
    assert zcbench.score(net(), datamodule=made, batch_size=16, proxies=["snip"])["snip"].status == "ok"


def test_every_name_of_the_table_can_be_read() -> None:
    text = (ROOT / "docs" / "own_proxies.md").read_text("utf-8")
    lines = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    names = {name for line in lines for name in re.findall(r"[A-Z][A-Za-z]+", line)}
    assert len(names) > 12
    assert [name for name in names if not hasattr(zcbench.proxies.passes, name)] == []
