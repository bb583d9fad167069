from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from zcbench.bench.report.families import FAMILIES, family
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.proxies.registry import costs
from zcbench.tools import zoo
from zcbench.tools.cards import EXAMPLE, anchor, code, example, formulas, listing, pages, works_on

# Other tests register proxies of their own.
OURS = {
    name: card
    for name, card in (*PROXIES.items(), *AGGREGATES.items())
    if card.function.__module__.startswith("zcbench.proxies.")
}
ROOT = Path(__file__).parents[2]


#: The value of an example, whose last digits differ between machines.
VALUE = re.compile(r"(?<=\.value  # ).+$", re.MULTILINE)
MADE = pages()


@pytest.mark.parametrize("name", MADE)
def test_the_committed_pages_are_those_that_the_cards_give(name: str) -> None:
    # python -m zcbench.tools.cards
    committed, made = (ROOT / "docs" / "proxies" / name).read_text("utf-8"), MADE[name]
    assert VALUE.sub("", committed) == VALUE.sub("", made)
    before, now = (list(map(float, VALUE.findall(text))) for text in (committed, made))
    assert now == pytest.approx(before, rel=0.02)


def test_there_are_no_other_pages() -> None:
    assert {path.name for path in (ROOT / "docs" / "proxies").iterdir()} == set(MADE)


def test_the_committed_listing_is_the_one_that_the_registry_gives() -> None:
    # python -m zcbench.tools.cards
    text = (ROOT / "proxies" / "cards.json").read_text("utf-8")
    assert text == listing()
    assert json.loads(text) == [OURS[name].card() for name in sorted(OURS)]


def test_the_committed_formulas_are_those_of_the_docstrings() -> None:
    pytest.importorskip("latex2mathml", reason='needs latex2mathml: pip install "zcbench[docs]"')
    # python -m zcbench.tools.cards
    assert (ROOT / "bench" / "report" / "formulas.json").read_text("utf-8") == formulas()


def sections(name: str) -> dict[str, str]:
    return dict(section.split("\n", 1) for section in re.split(r"^## ", MADE[name], flags=re.MULTILINE)[1:])


def test_every_proxy_stands_on_the_page_of_its_family_and_anglenas_has_a_reason() -> None:
    for page in FAMILIES:
        assert sorted(sections(f"{page}.md")) == sorted(name for name in OURS if family(name) == page)
    stems = [stem for each in FAMILIES.values() for stem in each.stems]
    assert sorted(stems) == sorted({name.partition(".")[0] for name in OURS})
    assert "needs that training" in MADE["README.md"]
    assert "| AngleNAS | .57 | .60 | .54 |" in MADE["README.md"]


def test_every_proxy_has_a_line_that_links_to_its_section() -> None:
    links = dict(re.findall(r"^\| \[([\w.]+)\]\((\w+\.md#\w+)\) \|", MADE["README.md"], re.MULTILINE))
    assert links == {name: f"{family(name)}.md#{anchor(name)}" for name in OURS}
    assert len(set(links.values())) == len(OURS)
    for page in FAMILIES:
        # The anchor that Markdown gives a heading.
        anchors = {re.sub(r"[^\w -]", "", name) for name in sections(f"{page}.md")}
        assert set(re.findall(r"^\| \[[\w.]+\]\(#(\w+)\) \|", MADE[f"{page}.md"], re.MULTILINE)) == anchors


def test_every_section_says_where_the_proxy_is_defined_and_on_what_it_works() -> None:
    for name, card in OURS.items():
        section = sections(f"{family(name)}.md")[name]
        assert card.paper
        assert f"\n*{card.paper}*\n" in section
        assert card.summary in section
        assert "\nWorks on " in section
        assert f"\n{example(card)}  # " in section  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OURS)
def test_every_example_runs(name: str) -> None:
    names: dict[str, object] = {"__name__": __name__}
    exec(compile(code(EXAMPLE), "docs/proxies/README.md", "exec"), names)
    found = eval(example(OURS[name]), names)  # type: ignore[arg-type]
    said = re.findall(rf"^{re.escape(example(OURS[name]))}  # (.+)$", MADE[f"{family(name)}.md"], re.MULTILINE)  # type: ignore[arg-type]
    assert said == [f"{found:.3g}" if isinstance(found, float) else repr(found)]


def test_what_a_proxy_works_on_is_what_the_zoo_says() -> None:
    text = (ROOT / "docs" / "zoo.md").read_text("utf-8")
    found = works_on(text)
    assert set(found) == set(OURS)
    # Read off docs/zoo.md: the letters e, h and nan, and a dot.
    assert found["naswot"]["timm mixer_s32"] == "the network lacks a ReLU"
    assert found["jacob_cov"]["timm mixer_s32"] == "nan"
    assert found["gradsign"]["torchvision resnet18"] == "·"
    assert found["params"]["timm repvgg_a0"] == "✓"
    # jacob_cov has a score there, and zen has none.
    assert found["jacob_cov_zen"]["timm vit_tiny_patch16"].startswith("the logits come from a sequence")
    # te_nas reads ntk_condition, which was not tried, and linear_regions, which has none there.
    assert found["te_nas"]["torchvision resnet18"] == "·"
    assert "can be made thin" in found["te_nas"]["torchvision convnext_tiny"]
    assert {zoo.kind(name) for name in found["params"]} == set(zoo.KINDS)


def test_every_proxy_was_measured() -> None:
    # python -m zcbench.tools.cost
    assert set(costs()) == set(OURS)
    assert all(ms > 0 for ms in costs().values())
