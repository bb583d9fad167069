from __future__ import annotations

import dataclasses
import io
import math

import numpy as np
import pytest
from rich.console import Console
from zcbench.bench.report.rivals import as_records, as_table, draw, lowest_table, p_value, verdict
from zcbench.bench.results.board import Board
from zcbench.bench.results.pairs import Comparison
from zcbench.bench.results.panel import Panel
from zcbench.bench.results.rivals import Against, Lowest
from zcbench.bench.stats.significance import Difference
from zcbench.bench.study.recipe import Recipe, Work


def panel(proxy: str, batch_size: int = 16) -> Panel:
    return Panel(proxy, 1, batch_size, (0,), np.zeros((3, 1)), np.ones((3, 1), dtype=bool), True)


def pair(other: str, gap: float, p: float, batch_size: int = 16) -> Comparison:
    tau = Difference(0.5 + gap, 0.5, gap, gap - 0.1, gap + 0.1, p, p, p)
    return Comparison(panel("mine", batch_size), panel(other, batch_size), 3, tau, tau)


def board(*rows: Comparison, census: bool = False) -> Against:
    recipe = Recipe(
        space="nb201",
        dataset="cifar10",
        truth="t",
        label="t",
        protocol="2",
        device="cpu",
        torch="2",
        accuracies={"a": 1.0},
        work=(Work(0, 16, ("mine",)),),
        batches={(16, 0): "0"},
        versions={"mine": 1},
        lower=(),
        aggregates=(),
        batch_sizes=(16,),
        resamples=50,
    )
    return Against(Board("title", "nb201 on [cifar10], 3 networks", recipe, {}, ({},)), "mine", census, rows)


def shown(found: Against) -> str:
    stream = io.StringIO()
    Console(width=80, file=stream).print(as_table(found))
    return stream.getvalue()


def test_one_line_a_pair_within_80_columns() -> None:
    found = board(pair("params", 0.2, 0.01), pair("grad_norm.all_params", -0.2, 0.0001), pair("snip", 0.01, 0.8))
    text = shown(found)
    assert max(map(len, text.splitlines())) <= 80
    lines = {line.split()[0]: line.rstrip() for line in text.splitlines() if line.strip()}
    assert "+.200 [+.10 +.30]" in lines["params"]
    assert lines["params"].endswith(".010  better")
    assert lines["grad_norm.all_params"].endswith("<.001  worse")
    assert lines["snip"].endswith(".800  undecided")
    assert "nb201 on [cifar10], 3 networks" in text
    assert "@" not in text


def test_pairs_of_fewer_networks_than_the_board_say_so() -> None:
    found = board(pair("params", 0.2, 0.01), pair("snip", 0.01, 0.8))
    recipe = dataclasses.replace(found.board.recipe, accuracies={name: 1.0 for name in "abcd"})
    found = dataclasses.replace(found, board=dataclasses.replace(found.board, recipe=recipe))
    assert [line.split()[-2:] for line in shown(found).splitlines()[2:4]] == [["3", "better"], ["3", "undecided"]]
    pytest.importorskip("matplotlib")
    assert draw([found]).count(" (3 networks)") == 2


def test_batch_sizes_tell_pairs_apart() -> None:
    text = shown(board(pair("snip", 0.1, 0.01, 2), pair("snip", 0.1, 0.01, 4)))
    assert "snip @2" in text
    assert "snip @4" in text


def test_a_census_has_no_interval_and_the_sign_decides() -> None:
    nan = math.nan
    tau = Difference(0.6, 0.5, 0.1, nan, nan, nan, nan, nan)
    row = Comparison(panel("mine"), panel("snip"), 3, tau, tau)
    assert verdict(row) == "better"
    text = shown(board(row, census=True))
    assert "no intervals" in text
    assert "+.100  " in text
    none = Difference(nan, nan, nan, nan, nan, nan, nan, nan)
    without = Comparison(panel("mine"), panel("snip"), 3, none, none)
    assert verdict(without) == "no answer"
    assert "no answer: fewer than 10 networks, or equal scores" in " ".join(shown(board(without)).split())
    (record,) = as_records([board(row, census=True)])
    assert record["tau_difference"] == 0.1
    assert record["tau_low"] is None
    assert (record["id"], record["verdict"]) == (board(row).board.id, "better")


def test_the_figure_is_the_same_every_time() -> None:
    pytest.importorskip("matplotlib")
    found = [board(pair("params", 0.2, 0.01), pair("snip", 0.01, 0.8)), board(pair("params", -0.2, 0.01))]
    svg = draw(found)
    assert svg == draw(found)
    assert svg.count("less params") == 2
    assert "right of 0, mine ranks better" in svg


def test_p_values_have_three_digits() -> None:
    assert [p_value(p) for p in (1.0, 0.0312, 0.001, 0.00099)] == ["1.000", ".031", ".001", "<.001"]


def test_boards_are_named_by_what_tells_them_apart() -> None:
    one = board().board
    other = dataclasses.replace(one, recipe=dataclasses.replace(one.recipe, dataset="cifar100"))
    larger = dataclasses.replace(one, recipe=dataclasses.replace(one.recipe, accuracies={name: 1.0 for name in "abcd"}))
    tau = Difference(0.653, 0.61, 0.043, -0.004, 0.102, 0.07, 0.07, 0.07)

    def places(*boards: Board) -> list[str]:
        table = lowest_table([Lowest("mine", one, "snip", each, tau) for each in boards], 3)
        return [str(cell) for cell in table.columns[2].cells]

    assert places(one) == ["nb201"]
    assert places(one, other) == ["nb201, cifar10", "nb201, cifar100"]
    many = dataclasses.replace(one, recipe=dataclasses.replace(one.recipe, batch_sizes=(64,)))
    assert places(one, many) == ["nb201, cifar10 (1) @16", "nb201, cifar10 (1) @64"]
    assert places(one, other, larger) == ["nb201, cifar10 (1)", "nb201, cifar100", "nb201, cifar10 (4)"]


def test_the_lowest_of_several_boards_fit_80_columns_and_are_records() -> None:
    tau = Difference(0.653, 0.61, 0.043, -0.004, 0.102, 0.07, 0.07, 0.07)
    one = board().board
    rows = [Lowest("evolved-c5957e", one, other, one, tau) for other in ("relu_count", "grad_norm.all_params")]
    stream = io.StringIO()
    Console(width=80, file=stream).print(lowest_table(rows, 3))
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "evolved-c5957e against others, each where it ranks worst of 3 boards" in text
    assert "lowest τ of evolved-c5957e: .653 on nb201;" in " ".join(text.split())
    assert all("-.00 +.10]" in line for line in text.splitlines() if "undecided" in line)
    assert [line.split()[0] for line in text.splitlines() if "undecided" in line] == [row.second for row in rows]
    first, last = as_records([board(pair("params", 0.2, 0.01))], rows[:1])
    assert first["tau_difference"] == pytest.approx(0.2)
    assert last["lowest_tau_difference"] == pytest.approx(0.043)
    assert (last["first_on"], last["second"], last["verdict"]) == (one.id, "relu_count", "undecided")
