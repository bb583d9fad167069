from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.proxies.registry import costs
from zcbench.tools.cards import formulas, listing, page

# Other tests register proxies of their own.
OURS = {
    name: card
    for name, card in (*PROXIES.items(), *AGGREGATES.items())
    if card.function.__module__.startswith("zcbench.proxies.")
}
ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_the_one_that_the_cards_give() -> None:
    # python -m zcbench.tools.cards > docs/proxies.md
    assert (ROOT / "docs" / "proxies.md").read_text("utf-8") == page()


def test_the_committed_listing_is_the_one_that_the_registry_gives() -> None:
    # python -m zcbench.tools.cards --json > proxies/cards.json
    text = (ROOT / "proxies" / "cards.json").read_text("utf-8")
    assert text == listing()
    assert json.loads(text) == [OURS[name].card() for name in sorted(OURS)]


def test_the_committed_formulas_are_those_of_the_docstrings() -> None:
    pytest.importorskip("latex2mathml", reason='needs latex2mathml: pip install "zcbench[docs]"')
    # python -m zcbench.tools.cards --formulas > bench/report/formulas.json
    assert (ROOT / "bench" / "report" / "formulas.json").read_text("utf-8") == formulas()


def test_every_proxy_has_a_section_and_anglenas_a_reason() -> None:
    text = page()
    for name in OURS:
        assert f"\n## {name}\n" in text
    assert "needs that training" in text
    assert "| AngleNAS | .57 | .60 | .54 |" in text


def test_every_proxy_has_a_line_that_links_to_its_section() -> None:
    text = page()
    links = dict(re.findall(r"^\| \[([\w.]+)\]\(#(\w+)\) \|", text, re.MULTILINE))
    assert set(links) == set(OURS)
    anchors = {re.sub(r"[^\w -]", "", title.lower()) for title in re.findall(r"^## (.+)$", text, re.MULTILINE)}
    assert set(links.values()) <= anchors
    assert len(set(links.values())) == len(OURS)


def test_every_section_says_where_the_proxy_is_defined() -> None:
    sections = dict(section.split("\n", 1) for section in re.split(r"^## ", page(), flags=re.MULTILINE)[1:])
    for name, card in OURS.items():
        assert card.paper
        assert f"\n*{card.paper}*\n" in sections[name]
        assert card.summary in sections[name]


def test_every_proxy_was_measured() -> None:
    # python -m zcbench.tools.cost
    assert set(costs()) == set(OURS)
    assert all(ms > 0 for ms in costs().values())
