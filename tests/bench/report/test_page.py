from __future__ import annotations

import jinja2
import pytest
from zcbench.bench.report.page import environment

HOSTILE = """"><script>alert('x')</script>&"""
TEMPLATES = environment().list_templates()


def test_the_parts_of_the_page_are_there() -> None:
    assert {"page.html", "page.css", "page.js", "macros.html"} <= set(TEMPLATES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_escapes_what_it_prints(name: str) -> None:
    made = environment()
    assert made.get_template(name).environment.autoescape is True
    source = made.loader.get_source(made, name)[0] if made.loader else ""
    assert "autoescape" not in source
    # Only drawings, which matplotlib has escaped, are printed as they are.
    assert source.count("safe") == source.count("drawing.svg | inline | safe")


@pytest.mark.parametrize(
    "call",
    [
        "heading(hostile, hostile)",
        "cell(hostile)",
        "cell(hostile, hostile)",
        "cell(1, hostile ~ '*')",
        "figures([{'svg': '<svg></svg>', 'caption': hostile}])",
    ],
)
def test_a_hostile_text_stays_text(call: str) -> None:
    text = environment().from_string(f"{{% import 'macros.html' as macros %}}{{{{ macros.{call} }}}}")
    made = text.render(hostile=HOSTILE)
    assert "<script" not in made
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;" in made


def test_a_hostile_heading_stays_text() -> None:
    source = """{% from 'macros.html' import table %}{% call table([hostile, (hostile, hostile)]) %}{% endcall %}"""
    made = environment().from_string(source).render(hostile=HOSTILE)
    assert "<script" not in made
    assert made.count("&#34;&gt;&lt;script&gt;") == 3


def test_a_name_that_is_not_given_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'absent' is undefined"):
        environment().from_string("{{ absent }}").render()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("line(nan, nan, nan)", ""),
        ("line(0.5, nan, nan)", ""),
        ("range(nan, nan)", ""),
        ("range(-0.25, 10.5)", "-.250 to 10.500"),
        ("cell(10.5, 10.5 | number)", '<td data-v="10.5">10.500</td>'),
        ("cell('a')", '<td data-v="a">a</td>'),
    ],
)
def test_parts(call: str, text: str) -> None:
    source = f"{{% import 'macros.html' as macros %}}{{{{ macros.{call} }}}}"
    assert environment().from_string(source).render(nan=float("nan")).strip() == text


def test_an_interval_is_drawn_from_end_to_end() -> None:
    source = "{% from 'macros.html' import line %}{{ line(0, -1, 0.5) }}"
    made = environment().from_string(source).render()
    assert 'aria-label="-1.00 to 0.50"' in made
    assert 'd="M5.0 7H87.5"' in made
    assert 'cx="60.0"' in made
