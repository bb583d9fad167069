"""What searches found, as tables for a terminal, rows for a file, and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from rich import box
from rich.table import Table

from ...bench.report.figures import as_svg, figure, style
from ...bench.report.numbers import Style, interval, number
from .benchmark import Benchmark
from .keep import Survival
from .outcome import Line, Mean, Outcome, steps
from .play import Run

_SIGNED: Style = {"sign": "+", "zero": True}
_WHOLE: Style = {"zero": True}


def tables(found: Sequence[Outcome], benchmark: Benchmark, repeats: int) -> Iterator[Table]:
    """Lay out what each method found, then its gain over the first method, then other data sets."""
    made = _table(
        f"means over {repeats} repeats; trained, scored: networks; valid, test: accuracies of the network with the "
        f"best validation accuracy, 95 % over repeats; optimum {number(benchmark.optimum, 2)}",
        ("trained", "scored", "valid", "test [95 %]"),
    )
    for each in found:
        counts = f"{each.trained:,.0f}", f"{each.scored:,.0f}", number(each.validation, 2)
        made.add_row(each.name, *counts, _estimate(each.test, **_WHOLE))
    yield made
    if len(found) > 1:
        first = found[0].name
        made = _table(f"test accuracy less that of {first} with the same seed", ("gain [95 %]", "repeats that gain"))
        for each in found[1:]:
            made.add_row(each.name, _estimate(each.gain, **_SIGNED), f"{each.better:g} of {len(each.tests)}")
        yield made
    if benchmark.others:
        optima = (f"{name} {number(float(truth.values.max()), 2)}" for name, truth in benchmark.others.items())
        made = _table(f"the same networks on other data sets; optimum {', '.join(optima)}", tuple(benchmark.others))
        for each in found:
            made.add_row(each.name, *(_estimate(value, **_WHOLE) for value in each.others.values()))
        yield made


def survival_table(found: Sequence[Survival], top: int, fraction: float) -> Table:
    """Lay out how much of the best networks of a pool each proxy keeps."""
    shares = [share for share in found[0].shares if share < 1]
    made = _table(
        f"share of the {top} most accurate networks of a pool that is among the highest scores; in brackets, the 95 % "
        f"interval of the mean over repeats at {fraction:.3g}",
        tuple(f"{share:.3g}" for share in shares),
    )
    for each in found:
        cells = [
            _estimate(value, **_WHOLE) if share == fraction else number(value.value, 2, zero=True)
            for share, value in zip(each.shares, each.kept, strict=True)
            if share < 1
        ]
        made.add_row(each.proxy, *cells)
    return made


def agreement_table(found: Sequence[tuple[str, str, Mean]]) -> Table:
    """Lay out how alike each metric of HNAS and the trace rank the networks of a pool."""
    made = _table("Spearman's rho within a pool, mean over repeats", ("of", "rho [95 %]"))
    for metric, trace, rho in found:
        made.add_row(metric, trace, _estimate(rho))
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


def survival_rows(found: Sequence[Survival]) -> pd.DataFrame:
    """Return one row for every proxy and share."""
    return pd.DataFrame(
        [
            {"proxy": each.proxy, "share": share, "kept": value.value, "low": value.low, "high": value.high}
            for each in found
            for share, value in zip(each.shares, each.kept, strict=True)
        ]
    )


def as_figure(drawn: Sequence[Line], benchmark: Benchmark, title: str) -> str:
    """Draw test accuracy against the number of trainings, and against their seconds if the table says them."""
    timed = benchmark.seconds is not None
    with style():
        made, axes = figure(1, 1 + timed, width=7.4 + 3.6 * timed, height=3.9, title=title, sharey=True, squeeze=False)
        for place, panel in enumerate(axes[0]):
            for line, colour in zip(drawn, _colours(len(drawn)), strict=True):
                xs = line.seconds if place else line.trained
                panel.fill_between(xs, line.low, line.high, color=colour, alpha=0.15, lw=0)
                panel.plot(xs, line.value, color=colour, lw=1.4, label=line.name)
            panel.axhline(benchmark.optimum, color="#1c2430", lw=0.8, ls=":", label="optimum")
            _logarithmic(panel)
            panel.set_xlabel("seconds of training, by the table" if place else "trained networks")
        # The first networks of a random search say nothing about its end, and would flatten it.
        low = min(float(line.value[len(line.value) // 10]) for line in drawn)
        margin = 0.05 * (benchmark.optimum - low)
        axes[0][0].set_ylim(low - margin, benchmark.optimum + margin)
        axes[0][0].set_ylabel("test accuracy, %")
        handles, names = axes[0][0].get_legend_handles_labels()
        made.legend(handles, names, loc="outside right center", handlelength=1.6)
        return as_svg(made, title)


def survival_figure(found: Sequence[Survival], top: int, title: str) -> str:
    """Draw how much of the best networks of a pool each proxy keeps, over the share that it keeps."""
    with style():
        made, axes = figure(1, 1, width=6.4, height=3.6, title=title)
        for each, colour in zip(found, _colours(len(found)), strict=True):
            value, low, high = ([getattr(kept, part) for kept in each.kept] for part in ("value", "low", "high"))
            axes.fill_between(each.shares, low, high, color=colour, alpha=0.15, lw=0)
            axes.plot(each.shares, value, color=colour, lw=1.4, marker="o", ms=3, label=each.proxy)
        axes.plot(found[0].shares, found[0].shares, color="#1c2430", lw=0.8, ls=":", label="chance")
        _logarithmic(axes)
        axes.set_xlabel("share of the pool that is kept")
        axes.set_ylabel(f"share of the top {top} that is kept")
        made.legend(loc="outside right center", handlelength=1.6)
        return as_svg(made, title)


def _logarithmic(axes: Any) -> None:
    """Make the horizontal axis logarithmic, with plain numbers at one and three in every power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _colours(count: int) -> list[Any]:
    import matplotlib as mpl

    return list(mpl.colormaps["tab20" if count > 10 else "tab10"](range(count)))


def _estimate(value: Mean, **kind: Any) -> str:
    ends = interval(value.low, value.high, **kind)
    return " ".join(filter(None, (number(value.value, 2, **kind), ends)))


def _table(caption: str, titles: Sequence[str]) -> Table:
    made = Table(caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    made.add_column("", overflow="fold")
    for title in titles:
        made.add_column(title, justify="right", no_wrap=True)
    return made
