from __future__ import annotations

from zcbench.bench.report.table import markdown

HEAD = "| a | b |\n| --- | --: |\n"


def test_a_cell_is_one_line_and_its_bars_end_no_cell() -> None:
    assert markdown(HEAD, [("x|y", 1), ("two\n lines", "")]) == HEAD + "| x\\|y | 1 |\n| two lines |  |\n"
    assert markdown(HEAD, []) == HEAD
