"""The page as a reader sees it, in headless Chromium. It makes no request, and nothing is written to its console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zcbench.bench.report.beside import Beside
from zcbench.bench.report.page import page
from zcbench.bench.results.overview import Leaderboard

playwright = pytest.importorskip("playwright.sync_api", reason='needs a browser: pip install "zcbench[browser]"')
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium on the path: apt-get install chromium")
#: What Chromium may lack in a container.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def address(leaderboard: Leaderboard, beside: Beside, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page(leaderboard, {}, beside), "utf-8")
    return path.as_uri()


class Reader:
    """A tab that shows the page, and notes whatever goes wrong."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.address, self.faults = address, []
        self.tab = browser.new_page(**options)
        self.tab.on("console", lambda message: self.faults.append(message.text))
        self.tab.on("pageerror", lambda error: self.faults.append(str(error)))
        self.tab.on("request", lambda request: self.faults.append(request.url) if self.left(request.url) else None)

    def left(self, url: str) -> bool:
        return not url.startswith((self.address, "data:"))

    def go(self, fragment: str = "") -> None:
        self.tab.goto("about:blank")
        self.tab.goto(self.address + fragment)

    def visible(self, table: str = "overview") -> list[str]:
        """The proxies of a table in the order in which a reader sees them."""
        script = """name => [...document.querySelectorAll(`[id="t-${name}"] tbody`)]
            .filter(body => body.offsetHeight).map(body => body.dataset.p)"""
        found: list[str] = self.tab.evaluate(script, table)
        return found

    def column(self, number: int, table: str = "overview") -> list[str]:
        script = """([name, number]) => [...document.querySelectorAll(`[id="t-${name}"] tbody`)]
            .map(body => body.rows[0].cells[number].dataset.v ?? body.rows[0].cells[number].textContent.trim())"""
        found: list[str] = self.tab.evaluate(script, [table, number])
        return found


@pytest.fixture
def reader(browser: Any, address: str) -> Iterator[Reader]:
    made = Reader(browser, address, viewport={"width": 1400, "height": 900})
    made.go()
    yield made
    assert made.faults == []
    made.tab.close()


@pytest.fixture(scope="module")
def ids(leaderboard: Leaderboard) -> list[str]:
    return [standing.board.id for standing in leaderboard.standings]


def test_the_overview_begins_with_the_best(reader: Reader, leaderboard: Leaderboard) -> None:
    assert reader.visible() == [overall.proxy for overall in leaderboard.overall]
    assert reader.tab.locator(".answer").inner_text().startswith("synflow has the best mean rank")
    assert reader.tab.locator("#shown").inner_text() == "10 of 10 shown"


def test_a_heading_sorts_and_what_is_empty_is_last_both_ways(reader: Reader) -> None:
    heading = reader.tab.locator("#t-overview th[data-key=lowest]")
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    down = reader.column(3)
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    up = reader.column(3)
    known = [float(value) for value in up if value]
    assert known == sorted(known)
    assert [float(value) for value in down if value] == known[::-1]
    # naswot is not on all boards, and flat has no coefficient.
    assert up[-2:] == down[-2:] == ["", ""]
    assert reader.tab.locator("#t-overview [aria-sort]").count() == 1
    reader.tab.locator("#t-overview th[data-key=proxy] button").click()
    assert reader.visible() == sorted(reader.visible())


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("q", "ZE", {"zen"}),
        ("family", "Features", {"zen"}),
        ("family", "own", {"flat", "mine"}),
        ("data", "noise", {"synflow", "zen"}),
        ("data", "images", {"naswot", "ntk_condition", "synflow", "zen"}),
        ("ms", "10", {"zen", "synflow", "naswot"}),
    ],
)
def test_filters_keep_the_baselines(reader: Reader, name: str, value: str, left: set[str]) -> None:
    control = reader.tab.locator(f"#controls [name={name}]")
    if name == "q":
        control.fill(value)
    else:
        control.select_option(value)
    # zen takes 0.1 ms, and every proxy ten times as long as the one before it: see `NOISE` of conftest.py.
    assert set(reader.visible()) == left | {"params", "macs", "random"}
    assert reader.tab.locator("#shown").inner_text() == f"{len(left) + 3} of 10 shown"
    address = reader.tab.evaluate("location.hash")
    reader.tab.locator("#controls [type=reset]").click()
    assert len(reader.visible()) == 10
    reader.go(address)
    assert set(reader.visible()) == left | {"params", "macs", "random"}


def test_only_rows_without_gaps(reader: Reader) -> None:
    reader.tab.locator("#controls [name=complete]").check()
    assert set(reader.visible()) == {
        "zen", "synflow", "grasp", "ntk_condition", "mine", "flat", "params", "macs", "random",
    }  # fmt: skip


def test_a_row_opens_to_charts_and_its_card(reader: Reader, ids: list[str]) -> None:
    reader.tab.locator("#jump").select_option(ids[0])
    opener = reader.tab.locator(f'[id="t-{ids[0]}"] .opener', has_text="grasp")
    assert opener.get_attribute("aria-expanded") == "false"
    opener.press("Enter")
    assert opener.get_attribute("aria-expanded") == "true"
    detail = reader.tab.locator(f"[id={opener.get_attribute('aria-controls')}]")
    assert detail.is_visible()
    assert "GraSP" in detail.locator(".card").inner_text()
    # Three of the sixty networks have no score.
    assert detail.locator("[data-draw=scatter] circle").count() == 57
    assert detail.locator("[data-draw=scatter] circle.top").count() == 6
    assert detail.locator("[data-draw=top] .mine").count() > 0
    assert "57 of 60 networks, 3 nan" in detail.inner_text()
    reader.tab.keyboard.press("Enter")
    assert detail.is_hidden()


def test_an_address_shows_what_its_writer_saw(reader: Reader, ids: list[str]) -> None:
    reader.tab.locator(".chooser summary").click()
    reader.tab.locator("#controls [value=given_params]").check()
    reader.tab.locator("#controls [value=cover]").uncheck()
    reader.tab.locator("#jump").select_option(ids[1])
    table = f'[id="t-{ids[1]}"]'
    reader.tab.locator(f"{table} th[data-key=rho] button").click()
    reader.tab.locator(f"{table} .opener", has_text="zen").click()
    address, order = reader.tab.evaluate("location.hash"), reader.visible(ids[1])
    reader.go(address)
    assert reader.tab.locator(f"#board-{ids[1]}").get_attribute("open") is not None
    assert reader.tab.locator(f"#board-{ids[0]}").get_attribute("open") is None
    assert reader.visible(ids[1]) == order
    assert reader.tab.locator(f"{table} th[data-key=rho]").get_attribute("aria-sort") == "descending"
    assert reader.tab.locator(f"{table} th[data-key=given_params]").is_visible()
    assert reader.tab.locator(f"{table} th[data-key=cover]").is_hidden()
    assert reader.tab.locator(f"{table} [aria-expanded=true]").inner_text() == "zen"
    link = reader.tab.locator(f"{table} .detail:visible a").get_attribute("href")
    reader.go(link or "")
    assert reader.tab.locator("[aria-expanded=true]").inner_text() == "zen"


def test_a_heading_leads_to_its_board_and_keeps_the_filter(reader: Reader, ids: list[str]) -> None:
    reader.tab.locator("#controls [name=q]").fill("zen")
    reader.tab.locator("#t-overview a.to").nth(1).click()
    assert reader.tab.locator(f"#board-{ids[1]}").get_attribute("open") is not None
    assert reader.tab.locator("#jump").input_value() == ids[1]
    assert set(reader.visible(ids[1])) == {"zen", "params", "macs", "random"}
    assert reader.tab.evaluate("location.hash") == f"#board={ids[1]}&q=zen"


def test_charts_of_a_board_can_be_pointed_at(reader: Reader, ids: list[str]) -> None:
    reader.go(f"#board={ids[2]}")
    board = reader.tab.locator(f"#board-{ids[2]}")
    # Every proxy with a coefficient but random: flat has none.
    assert board.locator(".pareto circle").count() == 8
    board.locator(".maps > summary").click()
    area = board.locator("[data-draw=differences] .map")
    said = board.locator("[data-draw=differences] output")
    area.locator("svg").hover(position={"x": 160, "y": 5})
    assert " less " in said.inner_text()
    before = said.inner_text()
    area.focus()
    reader.tab.keyboard.press("ArrowRight")
    assert said.inner_text() != before
    assert " and " not in said.inner_text()


def test_costs_over_all_boards_can_be_pointed_at(reader: Reader) -> None:
    points = reader.tab.locator("#overview .pareto circle")
    # Every proxy on all boards but random; naswot is not on all.
    assert points.count() == 8
    assert "mean rank" in (points.first.text_content() or "")
    assert "synflow" in reader.tab.locator("#overview .pareto .name").all_text_contents()


def test_one_method_of_a_search_can_be_looked_at_alone(reader: Reader) -> None:
    search = reader.tab.locator(".search")
    assert search.locator(".curve").count() == search.locator(".band").count() == 2
    search.locator("tr[data-line='1']").hover()
    assert search.locator("g.faint").count() == 1
    assert "random: 93.5 after 100 trainings" in (search.locator("g.faint").text_content() or "")
    reader.tab.mouse.move(0, 0)
    assert search.locator("g.faint").count() == 0
    search.locator("th button", has_text="gain").first.click()
    assert search.locator("tbody tr").first.get_attribute("data-line") == "1"


def test_a_program_is_named_by_what_it_reads(reader: Reader) -> None:
    program = reader.tab.locator("#program-mine")
    assert program.locator("summary").inner_text().startswith("exp of T1_D and T3")
    assert program.locator(".node").count() == 4
    assert program.locator(".leaf").all_text_contents() == ["T1_D", "T3"]
    assert program.locator("dl").inner_text().count("on the board ") == 3
    reader.tab.locator("#program-evolved-1 summary").press("Enter")
    assert "on no board of this page" in reader.tab.locator("#program-evolved-1 dl").inner_text()


def test_what_changed_can_be_sorted_and_has_an_address(reader: Reader) -> None:
    reader.tab.locator("#controls [name=q]").fill("zen")
    reader.tab.locator("header a", has_text="What changed").click()
    rows = reader.tab.locator("#changes tbody tr")
    assert reader.tab.locator("#changes").is_visible()
    assert rows.count() == 6
    assert rows.first.locator("td").all_inner_texts()[1:3] == ["zen", "scores"]
    assert rows.first.locator("td").nth(5).inner_text() == "+.125"
    reader.tab.locator("#changes th button", has_text="what").click()
    assert rows.first.locator("td").nth(2).inner_text() == "new"
    # The filter is kept, although the address names a place.
    assert set(reader.visible()) == {"zen", "params", "macs", "random"}


def test_rows_are_one_line_and_nothing_is_wider_than_a_phone(browser: Any, address: str, ids: list[str]) -> None:
    for width in (390, 1000, 1400):
        reader = Reader(browser, address, viewport={"width": width, "height": 900})
        reader.go(f"#board={ids[0]}")
        heights = reader.tab.evaluate(
            "[...document.querySelectorAll('tbody tr:not(.detail)')].map(r => r.offsetHeight).filter(h => h)"
        )
        assert max(heights) < 40
        assert reader.tab.evaluate("document.documentElement.scrollWidth") == width
        assert reader.faults == []
        reader.tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, address: str, ids: list[str], scheme: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason='needs axe: pip install "zcbench[browser]"'
    )
    reader = Reader(browser, address, viewport={"width": 1400, "height": 900}, color_scheme=scheme)
    reader.go(f"#board={ids[2]}&open={ids[2]}.zen")
    reader.tab.locator(f"#board-{ids[2]} .maps > summary").click()
    found = axe.Axe().run(reader.tab).response["violations"]
    serious = {v["id"]: [n["html"][:200] for n in v["nodes"]] for v in found if v["impact"] in ("serious", "critical")}
    assert serious == {}
    reader.tab.close()


def test_hostile_names_stay_text(reader: Reader, ids: list[str]) -> None:
    reader.go(f"#board={ids[0]}&open={ids[0]}.zen")
    title: str = Path(reader.tab.locator("[data-draw=scatter] circle title").first.text_content().split("\n")[0]).name
    assert title.startswith("<a")
