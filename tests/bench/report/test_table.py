from __future__ import annotations

import dataclasses
import io

import pytest
from zcbench.bench.report.table import as_csv, markdown

NAN = float("nan")


@pytest.mark.parametrize(
    ("rho", "low", "high", "top", "cells"),
    [
        (-0.4567, -0.567, -0.345, -0.25, ["-.457", "[-.57", "-.34]", "-.457", "[-.57", "-.34]", "-.25|-.25"]),
        (-0.4567, -0.567, -0.345, -1.0, ["-.457", "[-.57", "-.34]", "-.457", "[-.57", "-.34]", "-1.00|-1.00"]),
        (NAN, NAN, NAN, NAN, ["-", "-", "-"]),
        (-1.0, -1.0, -1.0, NAN, ["-1.000", "[-1.00", "-1.00]", "-1.000", "[-1.00", "-1.00]", "-"]),
    ],
    ids=["many networks", "a top of three", "no coefficient", "three networks"],
)
def test_the_table_fits_100_columns_for_every_name(
    rho: float, low: float, high: float, top: float, cells: list[str]
) -> None:
    from rich.console import Console
    from zcbench.bench.report.table import terminal
    from zcbench.bench.results.ranking import Ranking
    from zcbench.bench.stats.correlation import Correlation
    from zcbench.proxies import AGGREGATES, PROXIES
    from zcbench.proxies.registry import costs

    names = [*PROXIES, *AGGREGATES]
    slowest = max(costs().values())
    pools = {name: "15625 networks 01234567" for name in AGGREGATES}
    rankings = [
        Ranking(
            space="nb201",
            dataset="imagenet16-120",
            accuracy="imagenet16-120/test-200",
            protocol="2",
            device="cuda",
            torch="2",
            proxy=name,
            version=1,
            batch_size=128,
            seeds=(0, 1, 2),
            networks=15_625,
            census=False,
            coverage=1.0,
            failures={},
            ms=slowest,
            pool=pools.get(name, ""),
            higher_is_better=True,
            correlation=Correlation(
                15_625, rho, low, high, rho, low, high, top, top, low, high, top, top, low, high, 1.0
            ),
        )
        for name in names
    ]
    narrow = [dataclasses.replace(r, ms=2000) for r in rankings if len(r.proxy) <= len("grad_norm.all")]
    # Three networks have coefficients of -1 with intervals as wide, and do not fit.
    # At 80 columns long names are folded, and no digit is lost.
    for columns, shown in ((80, narrow), (80, rankings), (100, rankings))[2 * (rho == -1) :]:
        console = Console(width=columns, file=io.StringIO(), record=True)
        console.print(terminal(shown, "top-1 accuracy on the test images"))
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= columns
        assert "…" not in text
    assert ", batch 128" in text
    for heading in ("Spearman ρ [95 %]", "Kendall τ [95 %]", "τ top"):
        assert heading in text
    lines = [line.split() for line in text.splitlines()]
    for name in names:
        assert [name, *cells, "100%", f"{slowest:.0f}"] in lines
    for name, pool in pools.items():
        assert f"{name} ranks the pool of {pool}" in text


HEAD = "| a | b |\n| --- | --: |\n"


def test_a_cell_is_one_line_and_its_bars_end_no_cell() -> None:
    assert markdown(HEAD, [("x|y", 1), ("two\n lines", "")]) == HEAD + "| x\\|y | 1 |\n| two lines |  |\n"
    assert markdown(HEAD, []) == HEAD


def test_a_long_table_may_have_fewer_digits() -> None:
    assert as_csv([{"n": 200, "tau": 2 / 3, "of": "=1"}], 6) == "n,tau,of\n200,0.666667,'=1\n"
