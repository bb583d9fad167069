"""What searches found, as tables for a terminal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from rich import box
from rich.table import Table

from ...bench.report.numbers import Style, estimate, number, percent, significant
from ...bench.report.table import terminal
from ..engine.fitness import NOTHING
from .combine import Combination
from .discover import Discovery
from .explain import Response

_FULL: Style = {"zero": True, "missing": "nan"}
_SIGNED: Style = {**_FULL, "sign": "+"}


def candidates(discovery: Discovery) -> list[Table]:
    """Lay out the best programs on all networks of all pools, and their tests on other networks, a table per ground."""
    records = discovery.state.records
    seconds = sum(record.wall_s for record in records)
    by_class = any(not math.isnan(candidate.validation) for candidate in discovery.candidates)
    table = _table(
        f"{len(records)} generations in {seconds:.0f} s: the best programs on all networks of their pools",
        "fit: fitness on all networks, the lowest over pools; met: fitness on the networks that were drawn when the "
        "search first met the program"
        + ("; valid: fitness on the validation classes, by which they stand" if by_class else "")
        + "; nodes: operations and inputs of the program"
        + "; where τ is below 0, lower scores are better"
        * any(c.found.direction == "lower" for c in discovery.candidates),
    )
    for title in ("fit", "met", *(["valid"] if by_class else []), "nodes"):
        table.add_column(title, justify="right")
    table.add_column("τ by pool")
    table.add_column("name", no_wrap=True)
    table.add_column("program", overflow="fold")
    for candidate in discovery.candidates[:10]:
        table.add_row(
            "none" if candidate.fitness == NOTHING else number(candidate.fitness, **_FULL),
            number(candidate.met, **_FULL),
            *([number(candidate.validation, **_FULL)] if by_class else []),
            str(candidate.size),
            " ".join(number(tau, 2, **_SIGNED) for tau in candidate.tau.values()),
            candidate.found.name,
            candidate.found.program,
        )
    return [table, *(terminal(rankings, "networks of no pool") for rankings in discovery.tests if rankings)]


def combination(found: Combination) -> Table:
    """Lay out how aggregates and single proxies rank the pools that were fitted, and the pools that were not."""
    programs = len(found.state.records) * len(found.state.population)
    table = _table(
        f"{programs:,} programs in {found.seconds:.1f} s",
        "gain: over the best single proxy of the pools fitted on, paired\n"
        + "\n".join(f"{chosen}: {program}" for chosen, program in found.programs.items()),
    )
    table.add_column("networks of the pool, and what ranks them", overflow="fold")
    for title in ("Kendall τ [95 %]", "gain [95 %]", "τ in the top 10 % [95 %]"):
        table.add_column(title, justify="right", no_wrap=True)
    evolved = set(map(str, found.programs.values()))
    for pool, outcomes in itertools.groupby(found.outcomes, key=lambda outcome: outcome.pool):
        own = list(outcomes)
        table.add_row(f"{own[0].n} {pool}")
        for outcome in own:
            table.add_row(
                f"  {outcome.chosen if outcome.what in evolved else f'{outcome.what}: {outcome.chosen}'}",
                estimate(outcome.tau, outcome.tau_low, outcome.tau_high, **_FULL),
                estimate(outcome.gain, outcome.gain_low, outcome.gain_high, **_SIGNED),
                estimate(outcome.tau_top, outcome.tau_top_low, outcome.tau_top_high, **_FULL),
            )
    return table


def answers(responses: Sequence[Response], draws: int) -> Table:
    """Lay out the value of a program on random tensors, for several shapes, each with a number of `draws`."""
    table = _table(
        f"mean over {draws:,} random tensors of every shape",
        "value: of the program; deviation: over the tensors; finite: share of the tensors with a finite value\n"
        "where the value stays the same, the program does not see what was varied",
    )
    for title in ("varied", "kernel", "channels", "size", "value", "deviation", "finite"):
        table.add_column(title, justify="right")
    for r in responses:
        values = significant(r.mean, 5, missing="nan"), significant(r.deviation, missing="nan"), percent(r.finite, 0)
        table.add_row(r.factor, str(r.kernel), str(r.channels), str(r.size), *values)
    return table


def _table(title: str, caption: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        caption=caption or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
