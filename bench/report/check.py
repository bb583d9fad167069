"""What `zcbench check` found: a table for people, JSON for programs, JUnit and Markdown for CI."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from xml.etree import ElementTree

from rich import box
from rich.table import Table

from ..results.regress import Finding
from .numbers import Style, interval, null_if_not_finite, number
from .table import markdown, plain

_HEAD = """\
| proxy | batch | outcome | Spearman ρ | Kendall τ | why |
| --- | --: | --- | --- | --- | --- |
"""
#: The sign of a change is always written.
_CHANGE: Style = {"sign": "+", "zero": True, "missing": "nan"}


def as_table(findings: Sequence[Finding], title: str) -> Table:
    """Lay out findings in at most 100 columns; under a regression stand the networks whose rank moved most."""
    outcomes = [f.outcome for f in findings]
    counts = {outcome: outcomes.count(outcome) for outcome in ("same", "not comparable", "regressed")}
    table = Table(
        title=title,
        caption=", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for column, justify in (("proxy", "left"), ("batch", "right"), ("outcome", "left"), ("rho", "right")):
        table.add_column(column, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("why", overflow="fold")
    for f in findings:
        why = f.reason
        if f.outcome == "regressed":
            rho, tau = (interval(*change, 3, **_CHANGE) for change in (f.rho_change, f.tau_change))
            why += f"; rho changes by {rho}, tau by {tau}"
            why += "".join(f"\n  rank {m.before:g} -> {m.after:g}  {m.architecture[:40]}" for m in f.moved)
        rhos = " -> ".join(dict.fromkeys(number(rho, zero=True) for rho in f.rho if not math.isnan(rho)))
        table.add_row(f.proxy, str(f.batch_size), f.outcome, rhos, why)
    return table


def as_json(findings: Sequence[Finding]) -> str:
    """Write a list of records; a number that is not finite is null."""
    records = null_if_not_finite([asdict(finding) for finding in findings])
    return json.dumps(records, indent=1, allow_nan=False) + "\n"


def as_markdown(findings: Sequence[Finding], title: str) -> str:
    """Write a heading and a table, one row a proxy; both values of a coefficient stand where they differ."""
    outcomes = [f.outcome for f in findings]
    counts = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)}
    rows = [
        (
            f.proxy,
            f.batch_size,
            f.outcome if f.outcome == "same" else f"**{f.outcome}**",
            *(
                " -> ".join(dict.fromkeys(number(value) for value in both if not math.isnan(value)))
                for both in (f.rho, f.tau)
            ),
            f.reason,
        )
        for f in findings
    ]
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return f"### zcbench check: {plain(said)}\n\n{plain(title)}\n\n{markdown(_HEAD, rows)}\n"


def as_junit(findings: Sequence[Finding], name: str) -> str:
    """Write a JUnit file: a regression is a failure, and a proxy that cannot be compared is an error."""
    outcomes = [finding.outcome for finding in findings]
    suite = ElementTree.Element(
        "testsuite",
        name=f"zcbench check {name}",
        tests=str(len(findings)),
        failures=str(outcomes.count("regressed")),
        errors=str(outcomes.count("not comparable")),
    )
    for f in findings:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=f"{f.proxy} at batch {f.batch_size}")
        if f.outcome != "same":
            kind = "failure" if f.outcome == "regressed" else "error"
            moved = "\n".join(f"rank {m.before:g} -> {m.after:g}  {m.architecture}" for m in f.moved)
            ElementTree.SubElement(case, kind, message=f.reason, type=f.outcome).text = moved
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
