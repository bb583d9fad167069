"""Hooks of mkdocs.yml: formulas become MathML, and a site that would ask another server for anything is an error."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

#: Formulas as pymdownx.arithmatex leaves them: TeX between brackets, in a span or a div.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.+?)\\[)\]]</\1>', re.DOTALL)
#: What latex2mathml does not know, or not after a size such as Big, and what it does know.
UNKNOWN = {"lVert": "‖", "rVert": "‖", "langle": "⟨", "rangle": "⟩", "arg": r"\operatorname{arg}"}
#: What a browser fetches when it shows a page: sources, style sheets, icons, and what style sheets import.
FETCHED = re.compile(
    r"""\ssrc(?:set)?=["']?(?:https?:)?//[^"'>\s]+"""
    r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^"'>\s]+"""
    r"""|(?:@import\s*|url\()\s*["']?(?:https?:)?//[^"')\s]+"""
)


def mathml(latex: str, display: str = "block") -> str:
    """Return a formula as MathML, which browsers show without a script.

    Args:
        latex: TeX without dollar signs.
        display: `block` for a line of its own, or `inline`.

    Raises:
        ImportError: latex2mathml is not installed.
    """
    from latex2mathml.converter import convert

    for name, plain in UNKNOWN.items():
        latex = re.sub(rf"\\{name}(?![A-Za-z])", plain.replace("\\", r"\\"), latex)
    made: str = convert(" ".join(latex.split()), display=display)
    # A bracket of a given size has to be told that it may grow.
    made = made.replace("<mo minsize=", '<mo stretchy="true" minsize=').replace("\\_", "_")
    return re.sub(r' xmlns="[^"]*"', "", made)


def on_page_content(text: str, **_: Any) -> str:
    """Return the HTML of a page with its formulas as MathML."""
    return FORMULA.sub(lambda found: mathml(html.unescape(found[2]), "block" if found[1] == "div" else "inline"), text)


def fetched(site: Path) -> list[str]:
    """Return `file: what it fetches from elsewhere` for every page and style sheet of a site."""
    pages = sorted(path for path in site.rglob("*") if path.suffix in {".html", ".css"})
    return [
        f"{path.relative_to(site)}: {what.strip()}"
        for path in pages
        for what in FETCHED.findall(path.read_text("utf-8"))
    ]


def on_post_build(config: Any) -> None:
    """Require a site that fetches nothing from elsewhere.

    Raises:
        ValueError: A page or a style sheet does.
    """
    if found := fetched(Path(config.site_dir)):
        raise ValueError(f"site: expected files that fetch nothing from elsewhere, got {'; '.join(found[:5])}")
