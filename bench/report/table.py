"""The rankings of a study as a table for a terminal, SVG, Markdown beside published values, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..results.published.changes import Change
from ..results.ranking import Ranking
from .numbers import Style, estimate, milliseconds, null_if_not_finite, number, percent
from .published import published

#: A space stands in for the sign, so that points are aligned; what is missing is blank.
_ALIGNED: Style = {"sign": " "}
#: What a cell of a terminal shows in place of a coefficient that is missing.
_MISSING = "-"
_HEAD = """\
| space | data set | accuracy | proxy | networks | batch | Spearman ρ [95 %] | Kendall τ [95 %] | cover | published ρ \
| τ | networks, source |
| --- | --- | --- | --- | --: | --: | --- | --- | --: | --: | --: | --- |
"""
_CLAIM = "Kendall's tau is positive here where a proxy ranks as it claims, also where lower scores are better."
_CHANGES = """\
| board | proxy | what | τ before [95 %] | τ now [95 %] | change | networks before | now | version before | now |
| --- | --- | --- | --- | --- | --: | --: | --: | --: | --: |
"""


def terminal(rankings: Sequence[Ranking], label: str) -> Table:
    """Lay out the rankings of one study under the accuracy in words; with one batch size, in at most 80 columns."""
    first = rankings[0]
    few: dict[int, dict[str, None]] = {}
    for r in rankings:
        few.setdefault(r.networks, {})[r.proxy] = None
    most = max(few)
    pools = sorted({f"{r.proxy} ranks the pool of {r.pool}" for r in rankings if r.pool})
    sizes = {r.batch_size for r in rankings}
    seeds = " ".join(map(str, first.seeds))
    batch = f", batch {first.batch_size}" if len(sizes) == 1 and first.batch_size else ""
    ends = "" if first.census else " [95 %]"
    networks = f"all {most:,}" if first.census else most
    title = f"{first.space} on {first.dataset}: {networks} networks, seed {seeds}{batch}"
    table = Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        min_width=80,
        caption=f"{first.accuracy}: {label}\n"
        f"τ top: among the top 10 % by accuracy | by score, {_MISSING} if these are too few\n"
        f"ms: milliseconds for one network if nothing else is computed, on {first.device}"
        + "".join(f"\n{pool}" for pool in pools)
        + "".join(
            f"\nof {count:,} network{'s' * (count > 1)}: {', '.join(few[count])}"
            for count in sorted(few)
            if count < most
        )
        + "\nof networks that are one function, one was scored" * ("representatives" in first.protocol)
        + "\na census of the space: nothing is left to sample, so there are no intervals" * first.census,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    # Where a terminal is too narrow, a name goes on in the next line, and no digit is lost.
    table.add_column("proxy", overflow="fold")
    for title in (*(() if batch else ("batch",)), f"Spearman ρ{ends}", f"Kendall τ{ends}", "τ top", "cover", "ms"):
        table.add_column(title, justify="right", no_wrap=True)
    for r in rankings:
        c = r.correlation
        table.add_row(
            r.proxy,
            *(() if batch else (str(r.batch_size),)),
            estimate(c.rho, c.rho_low, c.rho_high, **_ALIGNED) or _MISSING,
            estimate(c.tau, c.tau_low, c.tau_high, **_ALIGNED) or _MISSING,
            _tops(c.tau_top_accuracy, c.tau_top_score),
            "100%" if r.coverage == 1 else percent(r.coverage),
            milliseconds(r.ms),
        )
    return table


def _tops(*coefficients: float) -> str:
    """Write the coefficients of both tops beside each other; one sign says that both are missing."""
    cells = [number(value, 2, **_ALIGNED) or f"  {_MISSING} " for value in coefficients]
    return _MISSING if all(map(math.isnan, coefficients)) else "|".join(cells)


def as_svg(table: Table) -> str:
    """Draw a table as a picture of a terminal; equal tables give equal bytes."""
    console = Console(record=True, width=100, file=io.StringIO(), markup=False)
    console.width = console.measure(table).maximum
    console.print(table)
    return console.export_svg(title="zcbench run", unique_id="zcbench")


def as_markdown(rankings: Sequence[Ranking]) -> str:
    """Write one row per study and proxy, with the published coefficients of the same space, task and proxy.

    A proxy that claims that lower scores are better has an arrow. Its coefficients are those of the scores as they are.
    """
    rows = []
    for r in rankings:
        c, theirs = r.correlation, published(r)
        rows.append(
            (
                r.space,
                r.dataset,
                r.accuracy,
                r.proxy if r.higher_is_better else f"{r.proxy} ↓",
                r.networks,
                r.batch_size,
                estimate(c.rho, c.rho_low, c.rho_high, **_ALIGNED),
                estimate(c.tau, c.tau_low, c.tau_high, **_ALIGNED),
                percent(r.coverage),
                number(theirs.rho if theirs else None),
                number(theirs.tau if theirs else None),
                f"{theirs.networks:,}, {theirs.source}" if theirs else "",
            )
        )
    return markdown(_HEAD, rows)


def changes_as_markdown(changes: Sequence[Change]) -> str:
    """Write what changed since a former version under a heading of its own; nothing if nothing changed."""
    rows = []
    for change in changes:
        both = change.before, change.now
        taus = [estimate(of.tau, of.tau_low, of.tau_high, **_ALIGNED) if of else "" for of in both]
        counts = [getattr(of, name) if of else "" for name in ("networks", "version") for of in both]
        size = number(change.size, sign="+")
        rows.append((change.row.title, change.row.proxy, change.what, *taus, size, *counts))
    return f"\n## What changed since the former version\n\n{_CLAIM}\n\n{markdown(_CHANGES, rows)}" if rows else ""


def markdown(head: str, rows: Iterable[Iterable[object]]) -> str:
    r"""Write a Markdown table; a cell is put on one line, and bars and HTML in it are escaped.

    Args:
        head: The two lines that begin the table: headings and alignment.
        rows: Cells, row by row.

    >>> markdown("| proxy | seeds |\n| --- | --: |\n", [("a|b", 3)]).splitlines()[-1]
    '| a\\|b | 3 |'
    """
    cells = ((plain(str(cell)) for cell in row) for row in rows)
    return head + "".join(f"| {' | '.join(row)} |\n" for row in cells)


def plain(text: str) -> str:
    r"""Return a text on one line that Markdown takes neither for a cell's end nor for HTML.

    >>> plain("a|b <script> p < .05")
    'a\\|b &lt;script> p < .05'
    """
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", " ".join(text.replace("|", "\\|").split()))


def as_csv(records: Sequence[Mapping[str, Any]], digits: int | None = None) -> str:
    """Write one line per record; a cell stays empty where the record has no such field.

    Numbers have all digits, or only the given number of significant ones.
    A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    text = io.StringIO()
    columns = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(cell, digits) for name, cell in record.items()} for record in records)
    return text.getvalue()


def _cell(cell: Any, digits: int | None) -> Any:
    if isinstance(cell, float) and digits:
        return f"{cell:.{digits}g}"
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def as_json(rankings: Sequence[Ranking]) -> str:
    """Write a list of records with all digits; a number that is not finite is null."""
    records = null_if_not_finite([ranking.flat() for ranking in rankings])
    return json.dumps(records, indent=1, allow_nan=False) + "\n"
