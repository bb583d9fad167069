from __future__ import annotations

import builtins
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from zcbench.bench.report.figures import (
    as_svg,
    by_batch_size,
    by_proxy,
    figure,
    heat_map,
    inline,
    is_ours,
    over_cut_off,
    save,
)
from zcbench.bench.results.ablation import Seed, Spread
from zcbench.bench.stats.top import Tops, tops
from zcbench.errors import ResultsError

NAN = math.nan


def spread(proxy: str, batch_size: int, tau: float) -> Spread:
    one = (tau, tau - 0.1, tau + 0.1, 0.02, 0.01, 0.04, tau - 0.03, tau + 0.03)
    return Spread(proxy, 1, batch_size, 3, 50, 1.0, *one, *one, 0.9, 0.8)


def seed(proxy: str, batch_size: int, number: int, tau: float) -> Seed:
    return Seed(proxy, 1, batch_size, number, 50, tau, tau - 0.1, tau + 0.1, tau, tau - 0.1, tau + 0.1)


def curve() -> Tops:
    random = np.random.RandomState(0)
    truth = random.normal(size=40)
    return tops(truth[:, None] + random.normal(size=(40, 1)), truth, (0.05, 0.2, 1.0))


def drawings() -> dict[str, str]:
    sizes = (1, 4, 16)
    spreads = [spread("zen", size, 0.1 * place) for place, size in enumerate(sizes)]
    seeds = [seed("zen", size, number, 0.1 * number) for size in sizes for number in (0, 1)]
    several = [spread("a", 16, 0.3), spread("b_c", 0, NAN), spread("<d> $x$", 16, -0.4)]
    matrix = np.asarray([[1, 0.871, -0.25], [0.871, 1, NAN], [-0.25, NAN, 1]])
    return {
        "batch": by_batch_size(spreads, seeds, "zen & co"),
        "proxies": by_proxy(["a", "b_c", "<d> $x$"], several, [[seed("a", 16, 0, 0.3)], [], []], "all"),
        "agreement": heat_map(["a", "b_c", "<d> $x$"], matrix, "alike"),
        "curves": over_cut_off(["first", "params", *(f"p{i}" for i in range(12))], [curve()] * 14, "tops"),
    }


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return drawings()


def texts(svg: str) -> list[str]:
    return ["".join(e.itertext()).strip() for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}text")]


def test_drawings_are_the_same_bytes_whatever_the_style_of_the_user(drawn: dict[str, str]) -> None:
    with mpl.rc_context({"font.size": 20, "lines.linewidth": 9, "axes.grid": False, "svg.hashsalt": "mine"}):
        again = drawings()
        assert mpl.rcParams["font.size"] == 20
    assert again == drawn


def test_drawings_say_what_they_show(drawn: dict[str, str]) -> None:
    assert {"zen & co", "Spearman ρ", "Kendall τ", "images in the batch", "1", "4", "16"} <= set(texts(drawn["batch"]))
    assert {"a", "b_c", "<d> $x$", "each seed", "95 % over networks"} <= set(texts(drawn["proxies"]))
    # The lower triangle: what is not a number has no text.
    assert {".87", "-.25"} <= set(texts(drawn["agreement"]))
    assert not any("nan" in text.lower() for text in texts(drawn["agreement"]))
    listed = set(texts(drawn["curves"]))
    assert {"first", "params", "p8", "others", "1 %", "100 %"} <= listed
    assert "p9" not in listed


@pytest.mark.parametrize("name", ["batch", "proxies", "agreement", "curves"])
def test_drawings_have_no_date_and_can_stand_in_a_page(drawn: dict[str, str], name: str) -> None:
    svg = drawn[name]
    assert is_ours(svg)
    assert "dc:date" not in svg
    assert "<image" not in svg
    body = inline(svg)
    assert body.startswith("<svg")
    assert "http" not in body
    root = ElementTree.fromstring(body)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    used = {element.get("href", "").removeprefix("#") for element in root.iter("use")}
    assert used <= set(ids)
    assert not any("_" in str(name) for name in ids)
    assert texts(svg) == ["".join(e.itertext()).strip() for e in root.iter("text")]


def test_others_may_draw(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made, axes = figure(1, 2, width=3, height=2)
        axes[0].plot([1, 2], [3, 4])
        save(made, tmp_path / "new" / f"{name}.svg")
    text = (tmp_path / "new" / "a.svg").read_text("utf-8")
    assert text == (tmp_path / "new" / "b.svg").read_text("utf-8")
    assert not is_ours(text)
    assert texts(as_svg(made)) == texts(text)


def test_without_matplotlib_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    there = builtins.__import__

    def absent(name: str, *arguments: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return there(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ResultsError, match=r'pip install "zcbench\[report\]"') as caught:
        figure(1, 1, width=1, height=1)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(ResultsError, match="expected matplotlib"):
        by_batch_size([], [], "")
