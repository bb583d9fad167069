from __future__ import annotations

import dataclasses

import jinja2
import pytest
from zcbench.bench.report import page as report
from zcbench.bench.report.beside import Beside
from zcbench.bench.report.marks import marks
from zcbench.bench.report.numbers import number
from zcbench.bench.report.page import claimed, environment, page
from zcbench.bench.results.overview import Leaderboard, overview
from zcbench.bench.results.published.changes import of_standings
from zcbench.bench.results.standing import BASELINES
from zcbench.bench.stats.conditional import Conditional

HOSTILE = """"><script>alert('x')</script>&"""
#: The name of SVG in scripts, which no browser asks for.
NAMESPACE = "http://www.w3.org/2000/svg"
TEMPLATES = environment().list_templates()


def test_the_parts_of_the_page_are_there() -> None:
    assert {"page.html", "page.css", "page.js", "macros.html"} <= set(TEMPLATES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_escapes_what_it_prints(name: str) -> None:
    made = environment()
    assert made.get_template(name).environment.autoescape is True
    source = made.loader.get_source(made, name)[0] if made.loader else ""
    assert "autoescape" not in source
    # Only drawings, which matplotlib has escaped, and formulas of the package are printed as they are.
    assert source.count("safe") == source.count("drawing.svg | inline | safe") + source.count("formula | safe")


@pytest.mark.parametrize(
    "call",
    [
        "heading(hostile, hostile)",
        "cell(hostile)",
        "cell(hostile, hostile)",
        "cell(hostile ~ '*', 1)",
        "figures([{'svg': '<svg></svg>', 'caption': hostile, 'in_page': true}])",
        "signs({'parity': none, 'card': {'tuned_on': hostile}})",
    ],
)
def test_a_hostile_text_stays_text(call: str) -> None:
    text = environment().from_string(f"{{% import 'macros.html' as macros %}}{{{{ macros.{call} }}}}")
    made = text.render(hostile=HOSTILE)
    assert "<script" not in made
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;" in made


def test_a_hostile_heading_stays_text() -> None:
    source = (
        """{% from 'macros.html' import table %}{% call table([hostile, (hostile, hostile)], hostile) %}{% endcall %}"""
    )
    made = environment().from_string(source).render(hostile=HOSTILE)
    assert "<script" not in made
    assert made.count("&#34;&gt;&lt;script&gt;") == 4


def test_a_name_that_is_not_given_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'absent' is undefined"):
        environment().from_string("{{ absent }}").render()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("line(nan, nan, nan, (0, 1))", ""),
        ("range(nan, nan)", ""),
        ("range(-0.25, 10.5)", "-.250 to 10.500"),
        ("cell('10.500', 10.5)", '<td data-v="10.5000">10.500</td>'),
        ("cell('', nan, 'rho')", '<td class="c-rho" data-v=""></td>'),
        ("cell('a')", "<td>a</td>"),
    ],
)
def test_parts(call: str, text: str) -> None:
    source = f"{{% import 'macros.html' as macros %}}{{{{ macros.{call} }}}}"
    assert environment().from_string(source).render(nan=float("nan")).strip() == text


def test_an_interval_is_drawn_from_end_to_end() -> None:
    source = "{% from 'macros.html' import line %}{{ line(0, -1, 0.5, (-1, 1)) }}"
    # In percent of the axis: -1 stands at 0, 0 at 50, and 0.5 at 75.
    assert 'style="--m:50.0;--l:0.0;--h:75.0"' in environment().from_string(source).render()


def test_coefficients_are_turned_with_their_intervals() -> None:
    values = {"rho": -0.5, "rho_low": -0.7, "rho_high": -0.2, "tau": -0.4, "tau_low": -0.6, "tau_high": -0.1}
    found = claimed(Conditional(n=30, **values, rho_sign_change=True), -1)
    assert found == Conditional(30, 0.5, 0.2, 0.7, 0.4, 0.1, 0.6, rho_sign_change=True)
    assert claimed(found, 1) is found


def test_equal_boards_give_equal_bytes_without_any_address(leaderboard: Leaderboard) -> None:
    made = page(leaderboard, {})
    assert made == page(leaderboard, {})
    assert "http" not in made.replace(NAMESPACE, "")
    assert "<a0>" not in made


def test_the_page_says_what_holds(leaderboard: Leaderboard) -> None:
    made = page(leaderboard, {})
    first = leaderboard.standings[0]
    assert first.ceiling
    assert f"a Spearman's ρ above <b>{number(first.ceiling.rho)}</b>" in made
    # The batch of a baseline, and the cost of noise, are nothing that a reader should see.
    assert '<td class="c-batch">0</td>' not in made
    assert "A proxy that is not part of zcbench." in made


def test_the_best_that_was_tuned_here_is_named_as_such(
    leaderboard: Leaderboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = marks("synflow")
    tuned = known._replace(card={**known.card, "tuned_on": "chosen on NAS-Bench-201"})
    monkeypatch.setattr(report, "marks", lambda proxy: tuned if proxy == "synflow" else marks(proxy))
    made = page(leaderboard, {})
    assert "It was tuned on networks of these boards; of the proxies that were not, <b>" in made
    assert 'title="chosen on NAS-Bench-201"' in made
    second, third = [of for of in leaderboard.overall[1:] if of.proxy not in BASELINES][:2]
    both = [dataclasses.replace(of, mean_rank=second.mean_rank) if of is third else of for of in leaderboard.overall]
    made = page(dataclasses.replace(leaderboard, overall=both), {})
    assert f"<b>{second.proxy}</b> and <b>{third.proxy}</b> are first, with " in made
    assert "It was tuned" not in page(Leaderboard(leaderboard.standings, leaderboard.overall[1:], [], [], []), {})


def test_proxies_that_share_the_best_mean_rank_are_all_named(leaderboard: Leaderboard) -> None:
    first, *others = leaderboard.overall
    other = next(of for of in others if of.proxy not in BASELINES)
    equal = [first, *(dataclasses.replace(of, mean_rank=first.mean_rank) if of is other else of for of in others)]
    made = page(dataclasses.replace(leaderboard, overall=equal), {})
    assert f"<b>{first.proxy}</b> and <b>{other.proxy}</b> have the best mean rank over the boards, " in made
    assert f"<b>{first.proxy}</b> has the best mean rank over the boards, " in page(leaderboard, {})


def test_one_board_has_no_overview(leaderboard: Leaderboard) -> None:
    standing = leaderboard.standings[0]
    made = page(Leaderboard([standing], overview([standing]), [], [], []), {})
    assert 'id="t-overview"' not in made
    assert "<b>synflow</b> ranks best, with a Kendall's τ of " in made


def test_what_is_not_given_has_no_section(leaderboard: Leaderboard) -> None:
    made = page(leaderboard, {})
    assert not [name for name in ("changes", "searches", "programs") if f'id="{name}"' in made]
    same = Beside(former=tuple(of_standings(leaderboard.standings)))
    assert "Nothing: every row is as it was." in page(leaderboard, {}, same)


def test_what_stands_beside_is_on_the_page(leaderboard: Leaderboard, beside: Beside) -> None:
    made = page(leaderboard, {}, beside)
    assert made == page(leaderboard, {}, beside)
    assert "http" not in made.replace(NAMESPACE, "")
    # zen on three boards; mine is new on three.
    assert "Of the rows of all boards, 3 changed, 3 are new, and 0 are gone." in made
    assert "The largest change of Kendall's τ is that of <b>zen</b> on " in made
    assert "94.00 [93.80 94.20]" in made
    assert "15.5 of 20" in made


def test_sealed_coefficients_stand_in_the_line_of_a_program(leaderboard: Leaderboard, beside: Beside) -> None:
    opened = {"600 sealed networks of nb201": (0.7537, 0.73, 0.775), "100 of nb_macro": (0.6036, 0.506, 0.681)}
    program = dataclasses.replace(beside.programs[0], sealed=opened)
    made = page(leaderboard, {}, Beside(programs=(program,)))
    assert f"<small>{program.name} · τ on sealed networks: .754, .604</small></summary>" in made
    assert f"<small>{program.name}</small></summary>" in page(leaderboard, {}, Beside(programs=(beside.programs[0],)))


def test_a_hostile_program_stays_text(leaderboard: Leaderboard, beside: Beside) -> None:
    hostile = beside.programs[0].__class__(
        HOSTILE, HOSTILE, HOSTILE, [HOSTILE], {HOSTILE: HOSTILE}, {HOSTILE: HOSTILE}, True, {HOSTILE: 0}
    )
    search = beside.searches[0].__class__(HOSTILE, 1, (HOSTILE,), ())
    made = page(leaderboard, {}, Beside(searches=(search,), programs=(hostile,)))
    assert "<script>alert" not in made
