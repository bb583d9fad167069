"""Figures of programs: the tree, and its value for layers of different sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...bench.report import figures
from ..language.programs import Program
from .explain import Response

#: Label of the axis of every factor that is varied.
LABELS = {"kernel": "kernel size", "channels": "channels", "size": "activation size"}
#: Inches: width of a panel, width of a leaf of a tree, height of a level.
WIDTH, LEAF, LEVEL = 3.2, 0.8, 0.45


def trees(path: Path, programs: Mapping[str, Program], responses: Sequence[Response] = ()) -> None:
    """Draw programs side by side, each under its title, and beside them the values of `responses`.

    Raises:
        ResultsError: matplotlib is not there.
    """
    groups = {factor: list(own) for factor, own in itertools.groupby(responses, key=lambda r: r.factor)}
    height = max(WIDTH, LEVEL * (2 + max(program.height for program in programs.values())))
    widths = [max(WIDTH, LEAF * sum(not node.args for node in program.nodes())) for program in programs.values()]
    widths += [WIDTH] * len(groups)
    with figures.style():
        drawing, axes = figures.figure(1, len(widths), width=sum(widths), height=height)
        axes = np.atleast_1d(axes)
        axes[0].get_gridspec().set_width_ratios(widths)
        for axis, (title, program) in zip(axes, programs.items(), strict=False):
            tree(axis, program)
            axis.set_title(title)
        for axis, (factor, own) in zip(axes[len(programs) :], groups.items(), strict=True):
            values = [getattr(r, factor) for r in own]
            axis.errorbar(values, [r.mean for r in own], yerr=[r.deviation for r in own], marker="o", capsize=3)
            axis.set_xlabel(LABELS[factor])
            axis.set_xticks(values, [str(value) for value in values])
            axis.set_ylabel("value: mean and standard deviation")
        figures.save(drawing, path)


def tree(axis: Any, program: Program) -> None:
    """Draw a program with the root on top and every leaf in its own column."""
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
