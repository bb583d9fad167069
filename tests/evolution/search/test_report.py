import io

import pytest
from rich.console import Console
from zcbench.evolution.search.outcome import lines, outcomes
from zcbench.evolution.search.play import Run, Trained
from zcbench.evolution.search.report import as_figure, rows, tables

pytest.importorskip("matplotlib")


def runs(count):
    """Return runs of two methods in which every training is better by one."""
    made = []
    for method, start in (("random", 0), ("aging", 3)):
        for repeat in range(2):
            widths = [start + repeat + place for place in range(count)]
            trained = [Trained(f"wide {w}", 0, 10.0, 50.0 + w, 50.0 + w) for w in widths]
            made.append(Run(method, "", repeat, trained))
    return made


def test_tables_say_what_each_method_found_and_gained(benchmark_of):
    console = Console(file=io.StringIO(), width=80)
    for table in tables(outcomes(runs(5), benchmark_of), benchmark_of, 2):
        console.print(table)
    text = console.file.getvalue()
    assert "54.50 [54.00 55.00]" in text  # random: 54 and 55
    assert "57.50 [57.00 58.00]" in text
    assert "+3.00 [+3.00 +3.00]" in text
    assert "2 of 2" in text
    assert "optimum 89.00" in text


def test_rows_hold_every_training(benchmark_of):
    found = rows(runs(5), benchmark_of, "cifar10")
    assert len(found) == 20
    last = found[(found["method"] == "aging") & (found["repeat"] == 1)].iloc[-1]
    assert (last["trained"], last["network"], last["chosen_test"]) == (5, "wide 8", 58.0)


def test_equal_runs_have_equal_figures(benchmark_of):
    first, second = (as_figure(lines(runs(30)), benchmark_of, "a title") for _ in range(2))
    assert first == second
    assert all(name in first for name in ("random", "aging", "optimum", "a title", "trained networks"))
    assert "seconds of training" not in first
