"""What `zcbench check` found: a table for people, JSON for programs, JUnit and Markdown for CI."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from xml.etree import ElementTree

from rich import box
from rich.table import Table

from ...errors import one_line
from ..results.regress import Finding, percent_of
from .numbers import null_if_not_finite, number
from .table import markdown, plain

_HEAD = """\
| proxy | batch | outcome | Spearman ρ | Kendall τ | why |
| --- | --: | --- | --- | --- | --- |
"""


def as_table(findings: Sequence[Finding], title: str) -> Table:
    """Lay out findings in 80 columns, one line for each that can be compared; the name of a proxy is never cut."""
    outcomes = [f.outcome for f in findings]
    counts = {outcome: outcomes.count(outcome) for outcome in ("same", "not comparable", "regressed")}
    caption = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    table = Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
    )
    sizes = len({f.batch_size for f in findings}) > 1
    for column in ("proxy", *(("batch",) if sizes else ()), "outcome", "ρ was", "ρ is"):
        table.add_column(column, justify="left" if column in {"proxy", "outcome"} else "right", no_wrap=True)
    table.add_column("scores that differ", overflow="fold")
    for f in findings:
        rhos = [number(rho, missing="-") for rho in f.rho]
        why = f.reason if f.outcome == "not comparable" else _differing(f)
        table.add_row(f.proxy, *((str(f.batch_size),) if sizes else ()), f.outcome, *rhos, why)
    return table


def _differing(f: Finding) -> str:
    """Say how many scores have another status, or else how many differ, and by how much of the larger score."""
    if f.statuses:
        return f"{f.statuses} of {f.scores} by status"
    return f"{f.differing} of {f.scores}" + f", up to {percent_of(f.largest)}" * (f.differing > 0)


def advice(findings: Sequence[Finding], command: str) -> str:
    """Say what to do about proxies whose scores moved or whose version is another; nothing if all are the same.

    Args:
        findings: What the check found.
        command: The command that writes the baseline anew.
    """
    moved = [f.proxy for f in findings if f.outcome == "regressed"]
    others = [f.proxy for f in findings if f.outcome == "not comparable"]
    if moved:
        names = ", ".join(dict.fromkeys(moved))
        return f"not meant: undo the change; meant: raise the version of {names}, run {command}, commit the file"
    return f"if all of this is meant: run {command}, commit the file" if others else ""


def as_json(findings: Sequence[Finding]) -> str:
    """Write a list of records; a number that is not finite is null."""
    records = null_if_not_finite([asdict(finding) for finding in findings])
    return json.dumps(records, indent=1, allow_nan=False) + "\n"


def as_markdown(findings: Sequence[Finding], title: str, command: str) -> str:
    """Write a heading, a table with a row a proxy, and what to do; a coefficient that differs has both values."""
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
    todo = advice(findings, f"`{command}`")
    text = f"### zcbench check: {plain(said)}\n\n{plain(title)}\n\n{markdown(_HEAD, rows)}\n"
    return f"{text}{plain(todo)}.\n\n" if todo else text


def as_junit(findings: Sequence[Finding], name: str, command: str) -> str:
    """Write a JUnit file: a regression is a failure, and a proxy that cannot be compared is an error."""
    outcomes = [finding.outcome for finding in findings]
    suite = ElementTree.Element(
        "testsuite",
        name=one_line(f"zcbench check {name}"),
        tests=str(len(findings)),
        failures=str(outcomes.count("regressed")),
        errors=str(outcomes.count("not comparable")),
    )
    for f in findings:
        what = one_line(f"{f.proxy} at batch {f.batch_size}")  # XML has no control characters
        case = ElementTree.SubElement(suite, "testcase", classname=one_line(name), name=what)
        if f.outcome != "same":
            kind = "failure" if f.outcome == "regressed" else "error"
            lines = [advice([f], command)]
            lines += ["networks whose rank moved most; rank 1 has the highest score:"] if f.moved else []
            lines += [f"rank {m.before:g} -> {m.after:g}  {m.architecture}" for m in f.moved]
            failure = ElementTree.SubElement(case, kind, message=one_line(f.reason), type=f.outcome)
            failure.text = "\n".join(map(one_line, lines))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
