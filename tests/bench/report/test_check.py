"""What a check found, as a table for a terminal."""

from __future__ import annotations

import io
import math
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console
from zcbench.bench.report.check import as_junit, as_table
from zcbench.bench.results.regress import Finding, Moved, percent_of
from zcbench.proxies import AGGREGATES, PROXIES


def shown(findings: list[Finding]) -> list[str]:
    """Return the lines of the table on a terminal of 80 columns, without white space around them."""
    console = Console(width=80, file=io.StringIO(), record=True, markup=False)
    console.print(as_table(findings, "b.json: 100 networks of nb201 on cifar10"))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    return [line.strip() for line in lines]


def regressed(proxy: str, size: int = 16, **changes: object) -> Finding:
    moved = tuple(Moved("|nor_conv_3x3~0|" * 6, i, 100 - i) for i in range(10))
    known = {
        "rho": (-0.7654, -0.6543), "tau": (-0.5, -0.4), "scores": 200, "differing": 197, "largest": 0.0123,
        "moved": moved,
    }  # fmt: skip
    return Finding(proxy, size, "regressed", "197 of 200 scores differ", **(known | changes))  # type: ignore[arg-type]


def test_a_regression_is_one_line_with_the_whole_name() -> None:
    names = [*PROXIES, *AGGREGATES]
    lines = shown([regressed(name) for name in names])
    for name in names:
        assert [line.split() for line in lines if line.split()[:1] == [name]] == [
            [name, "regressed", "-.765", "-.654", "197", "of", "200,", "up", "to", "1.2%"]
        ]
    assert f"{len(names)} regressed" in lines
    # Title, headings, a rule, what counts, and where more is: nothing else.
    assert len([line for line in lines if line]) == len(names) + 4


def test_the_batch_is_shown_where_there_are_several() -> None:
    longest = max([*PROXIES, *AGGREGATES], key=len)
    other = Finding(longest, 0, "not comparable", "version 1 is now 2: use --update")
    lines = shown([*(regressed(longest, size) for size in (2, 128)), other])
    assert [line.split() for line in lines if line.split()[:1] == [longest] and "regressed" in line] == [
        [longest, size, "regressed", "-.765", "-.654", "197", "of", "200,", "up", "to", "1.2%"] for size in ("2", "128")
    ]


def test_statuses_and_missing_coefficients() -> None:
    nan = (math.nan, math.nan)
    lines = shown(
        [
            regressed("synflow", statuses=3, largest=math.inf),
            Finding("snip", 16, "not comparable", "version 1 is now 2: use --update"),
            Finding("params", 16, "same", "200 scores within 1e-05", rho=nan, tau=nan, scores=200),
        ]
    )
    text = " ".join(" ".join(lines).split())
    assert "synflow regressed -.765 -.654 3 of 200 by status" in text
    assert "snip not comparable - - version 1 is now 2: use --update" in text
    assert "params same - - 0 of 200" in text
    assert "1 same, 1 not comparable, 1 regressed" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [(0.0000123, "0.0012%"), (0.0123, "1.2%"), (0.994, "99%"), (0.996, "100%"), (2.0, "100%"), (math.inf, "100%")],
)
def test_differences_in_percent(change: float, said: str) -> None:
    """Before, a difference of 100 % was written 1e+02%."""
    assert percent_of(change) == said


def test_names_are_what_they_are() -> None:
    hostile = regressed("a[/b]c[red]d\x1b", moved=())
    assert any(line.startswith("a[/b]c[red]d") for line in shown([hostile]))
    ET.fromstring(as_junit([hostile], "[red]x", "zcbench check --baseline 'a b`;.json' --update"))
