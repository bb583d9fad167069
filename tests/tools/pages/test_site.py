from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import zcbench
from zcbench.tools.pages.site import fetched, mathml, on_page_content, on_post_build

ROOT = Path(zcbench.__file__).parent


def test_formulas_of_a_page_become_mathml() -> None:
    pytest.importorskip("latex2mathml", reason='needs latex2mathml: pip install "zcbench[docs]"')
    page = (
        '<p>Let <span class="arithmatex">\\(a &lt; b\\)</span>.</p><div class="arithmatex">\\[\\frac{1}{2}\n\\]</div>'
        "<code>\\(x\\)</code>"
    )
    made = on_page_content(page)
    assert made.startswith(
        '<p>Let <math display="inline"><mrow><mi>a</mi><mo>&#x0003C;</mo><mi>b</mi></mrow></math>.</p>'
    )
    assert '<math display="block"><mrow><mfrac>' in made
    assert made.endswith("<code>\\(x\\)</code>")
    assert "arithmatex" not in made


def test_brackets_grow_and_no_tex_is_left() -> None:
    pytest.importorskip("latex2mathml", reason='needs latex2mathml: pip install "zcbench[docs]"')
    norm = mathml(r"\Big\lVert x \Big\rVert_2")
    assert norm.count('<mo stretchy="true"') == norm.count("‖</mo>") == 2
    assert "⟨" in mathml(r"\left\langle x \right\rangle")
    formulas = json.loads((ROOT / "bench" / "report" / "formulas.json").read_text("utf-8"))
    assert [name for name, made in formulas.items() if "\\" in "".join(made)] == []


FETCHES = [
    '<script src="https://unpkg.com/mathjax"></script>',
    "<img alt='' src='//example.org/a.png'>",
    '<link rel="preconnect" href="https://fonts.gstatic.com" crossorigin>',
    "<style>body { background: url(http://example.org/a.png) }</style>",
    '<style>@import "https://example.org/a.css";</style>',
]
FETCHES_NOTHING = [
    '<a href="https://arxiv.org/abs/1">paper</a>',
    '<script src="assets/a.js"></script>',
    '<link rel="stylesheet" href="../a.css">',
    '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>',
]


@pytest.mark.parametrize("text", FETCHES)
def test_a_site_that_asks_another_server_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("\n".join([*FETCHES_NOTHING, text]))
    assert len(fetched(tmp_path)) == 1
    with pytest.raises(ValueError, match=r"fetch nothing from elsewhere, got index\.html: "):
        on_post_build(SimpleNamespace(site_dir=str(tmp_path)))


def test_links_to_read_are_not_fetched(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("\n".join(FETCHES_NOTHING))
    on_post_build(SimpleNamespace(site_dir=str(tmp_path)))
