"""Figures of programs: the tree, its value for layers of different sizes, and how well it ranks spaces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...bench.report import figures
from ...bench.report.numbers import number
from ..language.programs import Program
from .explain import Response, groups

#: Label of the axis of every factor that is varied.
LABELS = {"kernel": "kernel size", "channels": "channels", "size": "activation size"}
#: Inches: width of a panel, width of a leaf of a tree, height of a level.
WIDTH, LEAF, LEVEL = 3.2, 0.8, 0.45
#: Inches: width and height of a cell of a heat map.
CELL = 1.1, 0.32


def explained(path: Path, program: Program, responses: Sequence[Response]) -> None:
    """Draw a program, and beside it its value over kernel size, channels and activation size, if there are responses.

    Raises:
        ResultsError: matplotlib is not there.
    """
    found = groups(responses)
    first = max(WIDTH, _width(program))
    with figures.style():
        drawing, axes = figures.figure(1, 1 + len(found), width=first + WIDTH * len(found), height=_height([program]))
        axes = np.atleast_1d(axes)
        axes[0].get_gridspec().set_width_ratios([first, *[WIDTH] * len(found)])
        tree(axes[0], program)
        for axis, (factor, own) in zip(axes[1:], found.items(), strict=True):
            values = [getattr(r, factor) for r in own]
            axis.errorbar(values, [r.mean for r in own], yerr=[r.deviation for r in own], marker="o", capsize=3)
            axis.set_xlabel(LABELS[factor])
            axis.set_xticks(values, [str(value) for value in values])
            axis.set_ylabel("value: mean and standard deviation")
        figures.save(drawing, path)


def trees(path: Path, programs: Mapping[str, Program]) -> None:
    """Draw programs side by side, each under its title.

    Raises:
        ResultsError: matplotlib is not there.
    """
    widths = [max(WIDTH, _width(program)) for program in programs.values()]
    with figures.style():
        drawing, axes = figures.figure(1, len(programs), width=sum(widths), height=_height(list(programs.values())))
        axes = np.atleast_1d(axes)
        axes[0].get_gridspec().set_width_ratios(widths)
        for axis, (title, program) in zip(axes, programs.items(), strict=True):
            tree(axis, program)
            axis.set_title(title)
        figures.save(drawing, path)


def across(path: Path, rows: Sequence[str], columns: Sequence[str], taus: Sequence[Sequence[float]]) -> None:
    """Draw how well each row ranks each column: a cell coloured by Kendall's tau, signed, grey where it is NaN.

    Raises:
        ResultsError: matplotlib is not there.
    """
    with figures.style():
        import matplotlib as mpl

        width, height = 2.6 + CELL[0] * len(columns), 1.2 + CELL[1] * len(rows)
        drawing, axis = figures.figure(1, 1, width=width, height=height)
        for y, row in enumerate(taus):
            for x, tau in enumerate(row):
                fill = "0.9" if math.isnan(tau) else mpl.colors.to_hex(mpl.colormaps["RdBu"]((tau + 1) / 2))
                axis.add_patch(mpl.patches.Rectangle((x - 0.5, y - 0.5), 1, 1, fc=fill, ec="white"))
                ink = "white" if abs(tau) > 0.65 else "black"
                axis.text(x, y, number(tau, 2, zero=True, missing="nan"), ha="center", va="center", color=ink)
        axis.set_xlim(-0.5, len(columns) - 0.5)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xticks(range(len(columns)), columns)
        axis.set_yticks(range(len(rows)), rows)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
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


def _width(program: Program) -> float:
    return LEAF * sum(not node.args for node in program.nodes())


def _height(programs: Sequence[Program]) -> float:
    return max(WIDTH, LEVEL * (2 + max(program.height for program in programs)))
