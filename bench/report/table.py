"""The result as a table for a terminal, as Markdown beside published values, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..results.ranking import Ranking
from .published import published


def terminal(rankings: Sequence[Ranking], label: str) -> Table:
    """Lay out rankings in at most 100 columns; `label` says in words which accuracy it is."""
    first = rankings[0]
    pools = sorted({f"{r.proxy} ranks the pool of {r.pool}" for r in rankings if r.pool})
    table = Table(
        title=f"{first.space} on {first.dataset}: {first.networks} networks, seed {' '.join(map(str, first.seeds))}",
        caption=f"{first.accuracy}: {label}\n"
        f"τ top: among the top 10 % by accuracy | by score; ms/net: alone, on {first.device}"
        + "".join(f"\n{pool}" for pool in pools),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("proxy", no_wrap=True)
    for title in ("batch", "Spearman ρ [95 %]", "Kendall τ [95 %]", "τ top", "cover", "ms/net"):
        table.add_column(title, justify="right", no_wrap=True)
    for r in rankings:
        c = r.correlation
        table.add_row(
            r.proxy,
            str(r.batch_size),
            f"{_signed(c.rho)} [{_signed(c.rho_low, 2)} {_signed(c.rho_high, 2)}]",
            f"{_signed(c.tau)} [{_signed(c.tau_low, 2)} {_signed(c.tau_high, 2)}]",
            f"{_signed(c.tau_top_accuracy, 2)}|{_signed(c.tau_top_score, 2)}",
            "100%" if r.coverage == 1 else f"{100 * r.coverage:.1f}%",
            f"{r.ms:.0f}" if r.ms >= 10 else f"{r.ms:.1f}",
        )
    return table


def as_svg(table: Table) -> str:
    """Draw a table as a picture of a terminal; equal tables give equal bytes."""
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(table)
    return console.export_svg(title="zcbench run", unique_id="zcbench")


def as_markdown(rankings: Sequence[Ranking]) -> str:
    """Write one row per study and proxy, with what others have published for the same space, task and proxy."""
    lines = [
        "| space | data set | accuracy | proxy | networks | batch | Spearman ρ [95 %] | Kendall τ [95 %] | cover "
        "| published ρ | τ | networks, source |",
        "| --- | --- | --- | --- | --: | --: | --- | --- | --: | --: | --: | --- |",
    ]
    for r in rankings:
        c = r.correlation
        theirs = published(r)
        numbers = [
            "" if value is None else _signed(value).strip()
            for value in (theirs and (theirs.rho, theirs.tau)) or (None, None)
        ]
        cells = (
            r.space,
            r.dataset,
            r.accuracy,
            r.proxy,
            str(r.networks),
            str(r.batch_size),
            f"{_signed(c.rho)} [{_signed(c.rho_low, 2)} {_signed(c.rho_high, 2)}]",
            f"{_signed(c.tau)} [{_signed(c.tau_low, 2)} {_signed(c.tau_high, 2)}]",
            f"{100 * r.coverage:.1f}%",
            *numbers,
            f"{theirs.networks:,}, {theirs.source}" if theirs else "",
        )
        lines.append("| " + " | ".join(" ".join(cell.split()) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def as_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Write one line per proxy, all digits; what a record lacks is left empty."""
    text = io.StringIO()
    columns = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def as_json(rankings: Sequence[Ranking]) -> str:
    """Write a list of records, all digits; what is not a number is null."""
    records = [{k: _plain(v) for k, v in ranking.flat().items()} for ranking in rankings]
    return json.dumps(records, indent=1, allow_nan=False) + "\n"


def _signed(value: float, digits: int = 3) -> str:
    if math.isnan(value):
        return " nan"
    short = f"{value:+.{digits}f}".replace("+", " ")
    return short if abs(value) >= 1 else short.replace("0.", ".", 1)


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
