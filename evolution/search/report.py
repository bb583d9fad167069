"""What searches found, as tables for a terminal, rows for a file, and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich import box
from rich.table import Table

from ...bench.report.figures import as_svg, figure, style
from ...bench.report.numbers import interval, number
from .benchmark import Benchmark
from .outcome import Line, Outcome, steps
from .play import Run


def as_table(found: Sequence[Outcome], benchmark: Benchmark, repeats: int) -> Table:
    """Lay out what each method found at the end of its budget, one line each."""
    first = found[0].name
    caption = (
        f"means over {repeats} repeats; trained, scored: networks; valid: validation accuracy of the chosen network; "
        f"test: its test accuracy, optimum {number(benchmark.optimum, 2)}; [95 % over repeats]; "
        f"gain: test less that of {first}, paired by repeat"
    )
    made = Table(caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    made.add_column("method", overflow="fold")
    for title in ("trained", "scored", "valid", "test [95 %]", "gain [95 %]"):
        made.add_column(title, justify="right", no_wrap=True)
    for place, each in enumerate(found):
        gain = number(each.gain.value, 2, sign="+", zero=True)
        ends = interval(each.gain.low, each.gain.high, sign="+", zero=True)
        made.add_row(
            each.name,
            f"{each.trained:,.0f}",
            f"{each.scored:,.0f}",
            number(each.validation, 2),
            f"{number(each.test.value, 2)} {interval(each.test.low, each.test.high)}",
            f"{gain} {ends}" if place else "",
        )
    return made


def rows(runs: Sequence[Run], benchmark: Benchmark, dataset: str) -> pd.DataFrame:
    """Return one row for every training of every run."""
    found: list[dict[str, Any]] = []
    for run in runs:
        for place, (training, step) in enumerate(zip(run.trained, steps(run), strict=True), start=1):
            chosen = run.trained[step.chosen]
            found.append(
                {
                    "method": run.method,
                    "proxy": run.proxy,
                    "space": benchmark.space.name,
                    "dataset": dataset,
                    "repeat": run.repeat,
                    "trained": place,
                    "scored": training.scored,
                    "seconds": training.seconds,
                    "network": training.network,
                    "validation": training.validation,
                    "test": training.test,
                    "chosen_validation": chosen.validation,
                    "chosen_test": chosen.test,
                    "best_test": step.best_test,
                }
            )
    return pd.DataFrame(found)


def as_figure(drawn: Sequence[Line], benchmark: Benchmark, title: str) -> str:
    """Draw test accuracy against the number of trainings, and against their seconds if the table says them."""
    import matplotlib as mpl

    timed = benchmark.seconds is not None
    with style():
        made, axes = figure(1, 1 + timed, width=5.4 + 4.0 * timed, height=3.9, title=title, sharey=True, squeeze=False)
        for place, panel in enumerate(axes[0]):
            for line, colour in zip(drawn, mpl.colormaps["tab10"](range(len(drawn))), strict=True):
                xs = line.seconds if place else line.trained
                panel.fill_between(xs, line.low, line.high, color=colour, alpha=0.15, lw=0)
                panel.plot(xs, line.value, color=colour, lw=1.4, label=line.name)
            panel.axhline(benchmark.optimum, color="#1c2430", lw=0.8, ls=":", label="optimum")
            panel.set_xscale("log")
            panel.set_xlabel("seconds of training, by the table" if place else "trained networks")
        # The first networks of a random search say nothing about its end, and would flatten it.
        low = min(float(line.value[len(line.value) // 10]) for line in drawn)
        axes[0][0].set_ylim(low - 0.1 * (benchmark.optimum - low), benchmark.optimum + 0.05 * (benchmark.optimum - low))
        axes[0][0].set_ylabel("test accuracy of the chosen network, %")
        handles, names = axes[0][0].get_legend_handles_labels()
        made.legend(handles, names, loc="outside right upper", handlelength=1.6)
        return as_svg(made, title)
