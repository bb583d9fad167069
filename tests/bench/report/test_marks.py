from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import zcbench
from zcbench.bench.report.marks import SPACES, Marks, marks
from zcbench.spaces import SPACES as KNOWN

ROOT = Path(zcbench.__file__).parent


@pytest.mark.parametrize(
    ("proxy", "family", "data"),
    [
        ("params", "Sizes and other simple rivals", "none"),
        ("random", "Sizes and other simple rivals", "none"),
        ("conv_count", "Sizes and other simple rivals", "none"),
        ("zen", "Features", "noise"),
        ("naswot", "On and off patterns", "images"),
        ("synflow", "Saliency of weights", "none"),
        ("jacob_cov", "Gradients of the input", "images"),
        ("grasp", "Saliency of weights", "labels"),
        # It ranks by the scores of synflow, jacob_cov and snip, which reads labels.
        ("vote", "Aggregates", "labels"),
        ("mine", "own", ""),
    ],
)
def test_families(proxy: str, family: str, data: str) -> None:
    assert marks(proxy)[:2] == (family, data)


def test_the_families_are_those_of_the_pages_on_proxies() -> None:
    """The index of the pages names the families of every proxy, and each heading is a title."""
    index = (ROOT / "docs" / "proxies" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(.+)\]\((\w+)\.md\) \| .+ \|$", index, re.MULTILINE)
    titles = {name: (ROOT / "docs" / "proxies" / f"{name}.md").read_text("utf-8").splitlines()[0] for _, name in rows}
    assert [f"# {title}" for title, _ in rows] == list(titles.values())
    pages = dict(re.findall(r"^\| \[([\w.]+)\]\((\w+)\.md#", index, re.MULTILINE))
    assert {proxy: marks(proxy).family for proxy in pages} == {
        proxy: titles[page].removeprefix("# ") for proxy, page in pages.items()
    }


def test_agreement_with_the_authors_code() -> None:
    zen = marks("zen")
    assert zen.parity
    assert zen.parity.agrees
    # Round-off decides what the released code of EZNAS gives, see docs/parity.md.
    released = marks("eznas_a.as_released").parity
    assert released
    assert not released.agrees
    assert marks("tpc").parity is None


def test_the_marks_are_those_of_the_document() -> None:
    # python -m zcbench.tools.parity --json FOLDER... > bench/report/parity.json
    lines = re.findall(r"^\| (\S+) \| \S+ \| (.+?) \| (\d+) \| (\S+) \| \S+ \|$",
                       (ROOT / "docs" / "parity.md").read_text("utf-8"), re.MULTILINE)  # fmt: skip
    found = json.loads((ROOT / "bench" / "report" / "parity.json").read_text("utf-8"))
    assert set(found) == {name for name, *_ in lines}
    for name, record in found.items():
        own = [(variant, int(values), float(largest)) for proxy, variant, values, largest in lines if proxy == name]
        double = [row for row in own if "float64" in row[0]]
        assert record["values"] == sum(values for _, values, _ in own)
        assert record["largest"] == max(largest for *_, largest in double or own)
        assert record["precision"] == ("float64" if double else "float32")


def test_a_definition_is_tuned_on_the_networks_that_it_names() -> None:
    evolved = Marks("gradients", "images", {"tuned_on": "evolved on NDS DARTS, CIFAR-10"}, None, ())
    assert evolved.tuned_here("nds_darts")
    assert not evolved.tuned_here("nb201")
    assert not marks("mine").tuned_here("nb201")
    assert set(SPACES) <= set(KNOWN)


def test_every_formula_is_mathml() -> None:
    assert marks("meco").formulas
    assert all(formula.startswith("<math") and "http" not in formula for formula in marks("zen").formulas)
