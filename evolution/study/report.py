"""What searches found, as tables for a terminal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from rich import box
from rich.table import Table

from ...bench.report.table import terminal
from ..engine.fitness import NOTHING
from .combine import Combination
from .discover import Discovery
from .explain import Response


def candidates(discovery: Discovery) -> Table:
    """Lay out the best programs, measured on all networks of all pools."""
    records = discovery.state.records
    seconds = sum(record.wall_s for record in records)
    table = _table(
        f"{len(records)} generations in {seconds:.0f} s: the best programs on all networks of their pools",
        "fit: the fitness on all networks, the least of all pools; met: on what was drawn when the program was met",
    )
    for title in ("fit", "met", "nodes"):
        table.add_column(title, justify="right")
    table.add_column("τ by pool")
    table.add_column("name", no_wrap=True)
    table.add_column("program", overflow="fold")
    for candidate in discovery.candidates[:10]:
        table.add_row(
            "none" if candidate.fitness == NOTHING else f"{candidate.fitness:.3f}",
            f"{candidate.met:.3f}",
            str(candidate.size),
            " ".join("nan" if math.isnan(tau) else f"{tau:+.2f}" for tau in candidate.tau.values()),
            candidate.name,
            candidate.program,
        )
    return table


def tests(discovery: Discovery) -> list[Table]:
    """Lay out how the best programs rank networks that the search never saw, a table a ground."""
    return [terminal(rankings, "networks of no pool") for rankings in discovery.tests if rankings]


def combination(found: Combination) -> Table:
    """Lay out how aggregates and single proxies rank what was fitted and what was not."""
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
                f"{outcome.tau:.3f} [{outcome.tau_low:.2f} {outcome.tau_high:.2f}]",
                f"{outcome.gain:+.3f} [{outcome.gain_low:+.2f} {outcome.gain_high:+.2f}]",
                f"{outcome.tau_top:.3f} [{outcome.tau_top_low:.2f} {outcome.tau_top_high:.2f}]",
            )
    return table


def answers(responses: Sequence[Response], draws: int) -> Table:
    """Lay out how a program answers to the sizes of a layer."""
    table = _table(f"mean over {draws:,} random tensors of every shape", "")
    for title in ("varied", "kernel", "channels", "size", "value", "deviation", "finite"):
        table.add_column(title, justify="right")
    for r in responses:
        sizes = (str(r.kernel), str(r.channels), str(r.size))
        table.add_row(r.factor, *sizes, f"{r.mean:.5g}", f"{r.deviation:.3g}", f"{100 * r.finite:.0f}%")
    return table


def _table(title: str, caption: str) -> Table:
    return Table(title=title, caption=caption or None, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
