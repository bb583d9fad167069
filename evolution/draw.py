"""Pictures of programs: the tree, and how it answers to the sizes of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .explain import Response, groups
from .programs import Program

#: What is on the axis of every factor.
LABELS = {"kernel": "kernel size", "channels": "channels", "size": "activation size"}


def explained(path: Path, program: Program, responses: Sequence[Response]) -> None:
    """Draw a program beside its response to kernel size, channels and activation size."""
    from ..bench.report.figures import figure, save

    found = groups(responses)
    axes: Any
    drawing, axes = figure(1, 1 + len(found), width=3.2 * (1 + len(found)), height=3.2)
    tree(axes[0], program)
    for axis, (factor, own) in zip(axes[1:], found.items(), strict=True):
        values = [getattr(r, factor) for r in own]
        means, deviations = [r.mean for r in own], [r.deviation for r in own]
        axis.errorbar(values, means, yerr=deviations, marker="o", capsize=3)
        axis.set_xlabel(LABELS[factor])
        axis.set_xticks(values, [str(v) for v in values])
        axis.set_title("value, mean and deviation")
    save(drawing, path)


def trees(path: Path, programs: dict[str, Program]) -> None:
    """Draw programs side by side."""
    from ..bench.report.figures import figure, save

    axes: Any
    drawing, axes = figure(1, len(programs), width=4.0 * len(programs), height=3.6)
    for axis, (title, program) in zip([axes] if len(programs) == 1 else axes, programs.items(), strict=True):
        tree(axis, program)
        axis.set_title(title)
    save(drawing, path)


def tree(axis: Any, program: Program) -> None:
    """Draw a program, the root on top, every leaf in a column of its own."""
    leaves = 0
    height = program.height

    def visit(node: Program, depth: int) -> float:
        nonlocal leaves
        if node.args:
            below = [visit(argument, depth + 1) for argument in node.args]
            place = sum(below) / len(below)
            for x in below:
                axis.plot([place, x], [-depth, -depth - 1], color="0.6", linewidth=1, zorder=1)
        else:
            place = float(leaves)
            leaves += 1
        box = {"boxstyle": "round", "facecolor": "#e8f0fa" if node.args else "#fdf1d6", "edgecolor": "0.5"}
        axis.text(place, -depth, node.name, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
        return place

    visit(program, 0)
    axis.set_xlim(-0.7, max(leaves, 1) - 0.3)
    axis.set_ylim(-height - 0.6, 0.6)
    axis.axis("off")
