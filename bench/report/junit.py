"""What the regression check found: a table for people, JSON for machines, JUnit for CI."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from rich import box
from rich.table import Table

from ..results.regress import Finding


def as_table(findings: Sequence[Finding], title: str) -> Table:
    """Lay out findings in at most 100 columns; below a regression stand the networks whose rank moved most."""
    counts = {
        outcome: sum(f.outcome == outcome for f in findings) for outcome in ("same", "not comparable", "regressed")
    }
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
            why += f"; rho changes by {_interval(f.rho_change)}, tau by {_interval(f.tau_change)}"
            why += "".join(f"\n  rank {m.before:g} -> {m.after:g}  {m.architecture[:40]}" for m in f.moved)
        rhos = " -> ".join(dict.fromkeys(f"{rho:.3f}" for rho in f.rho if not math.isnan(rho)))
        table.add_row(f.proxy, str(f.batch_size), f.outcome, rhos, why)
    return table


def as_json(findings: Sequence[Finding]) -> str:
    """Write a list of records; what is not a number is null."""
    return json.dumps([_plain(asdict(finding)) for finding in findings], indent=1, allow_nan=False) + "\n"


def as_junit(findings: Sequence[Finding], name: str) -> str:
    """Write a JUnit file: a regression is a failure, what cannot be compared is an error."""
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


def _interval(values: tuple[float, float]) -> str:
    return "[" + " ".join(f"{value:+.3f}" for value in values) + "]"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
