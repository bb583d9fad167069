"""A table of how programs rank the spaces that they were not evolved on (figure 11 of EZNAS).

The scores come from `zcbench run --program PROGRAM.json ...`, which may include other proxies for comparison.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...bench.report import figures
from ...bench.report.numbers import number
from ...bench.results.board import Board, boards
from ...bench.results.ranking import select, summarise
from ...bench.results.rivals import only
from ...bench.scoring.store import Store
from ...bench.study.recipe import Recipe
from ...errors import ResultsError
from ...progress import Progress
from ..data.seen import grounds, unseen
from .found import Found

#: Inches: width and height of a cell of the picture.
CELL = 1.1, 0.32


@dataclass(frozen=True)
class Cell:
    """How a proxy ranks the networks of a board, without the networks that any program has seen.

    Attributes:
        evolved: Grounds that the proxy's program was evolved on; empty for other proxies.
        program: Program of the proxy, as text; empty for other proxies.
        networks: Number of networks that are ranked.
        tau: Kendall's tau-b, mean over seeds; `tau_low` and `tau_high` are the ends of its 95 % interval over networks.
        own: Whether the program was evolved on other networks of the same space and data set.
    """

    proxy: str
    batch_size: int
    evolved: str
    program: str
    space: str
    dataset: str
    networks: int
    tau: float
    tau_low: float
    tau_high: float
    own: bool


def cross(results: Path, programs: Sequence[Found], data: Path, others: Sequence[str] = ()) -> list[Cell]:
    """Return a cell for every proxy on every board of a results folder, in the order of boards and programs.

    Networks that any of the programs has seen are left out for all proxies, see `data.seen`.

    Args:
        results: Folder of the scores.
        programs: Programs, which have scores there.
        data: The data folder.
        others: Proxies beside the programs; empty for all that have scores.

    Raises:
        ProgramError: The recipe of a program does not say which networks it has seen.
        ResultsError: No board has scores of a program, or fewer than three networks of a board are left.
    """
    known = {found.name: found for found in programs}
    store = Store(results)
    cells: list[Cell] = []
    found_boards = boards(results)
    with Progress(f"boards of {results}", len(found_boards)) as progress:
        for board in found_boards:
            cells += _cells(_unseen(board, programs, data), store, known, others)
            progress.advance(1)
    absent = sorted({*known, *others} - {cell.proxy for cell in cells})
    if absent:
        raise ResultsError(
            f"results: no scores of {', '.join(absent)} in {results}: score them with `zcbench run --program`"
        )
    return cells


def _cells(recipe: Recipe, store: Store, known: Mapping[str, Found], others: Sequence[str]) -> list[Cell]:
    """Return the cells of one board, those of programs first and in their order."""
    if others:
        recipe = only(recipe, {*known, *others})
    order = {name: place for place, name in enumerate(known)}
    rankings = summarise(recipe, select(store, recipe))
    cells = []
    for ranking in sorted(rankings, key=lambda r: (order.get(r.proxy, len(order)), r.proxy, r.batch_size)):
        c, found = ranking.correlation, known.get(ranking.proxy)
        evolved = grounds(found) if found else []
        cells.append(
            Cell(
                proxy=ranking.proxy,
                batch_size=ranking.batch_size,
                evolved=" ".join("/".join(ground) for ground in evolved),
                program=found.program if found else "",
                space=recipe.space,
                dataset=recipe.dataset,
                networks=c.n,
                tau=c.tau,
                tau_low=c.tau_low,
                tau_high=c.tau_high,
                own=(recipe.space, recipe.dataset) in evolved,
            )
        )
    return cells


def _unseen(board: Board, programs: Sequence[Found], data: Path) -> Recipe:
    """Return the recipe of a board without the networks that programs have seen."""
    left = unseen(board, programs, data).recipe
    if len(left.accuracies) < 3:
        raise ResultsError(
            f"results: {board.name}: only {len(left.accuracies)} networks are unseen: expected 3 or more"
        )
    return left


def reading(program: str) -> str:
    """Return the outermost operation of a program with what the whole program reads, such as `gt(T1_P, T4G_N)`."""
    read = dict.fromkeys(re.findall(r"[A-Za-z][^\s(),]*(?=[),]|$)", program))
    return f"{program.partition('(')[0]}({', '.join(read)})" if "(" in program else program


def picture(path: Path, cells: Sequence[Cell]) -> None:
    """Draw a table with a row for every proxy and a column for every board; colours show Kendall's tau.

    Of several boards, the last column has the lowest tau of each row, and the highest of these stands on top. Programs
    are named by what they read, and by where they were evolved unless that is the same for all. A number is bold where
    its program was evolved on other networks of the board. If a board has a proxy with several batch sizes, each of
    them has a row.

    Raises:
        ResultsError: matplotlib is not installed.
    """
    several = len({(c.proxy, c.space, c.dataset) for c in cells}) < len(cells)
    columns = {board: place for place, board in enumerate(dict.fromkeys((c.space, c.dataset) for c in cells))}
    rows: dict[tuple[str, int], list[Cell]] = {}
    for c in cells:
        rows.setdefault((c.proxy, c.batch_size if several else 0), []).append(c)
    least = {row: _lowest(of, len(columns)) for row, of in rows.items()}
    order = sorted(rows, key=lambda row: -least[row] if math.isfinite(least[row]) else math.inf)
    names, heads = _names([rows[row][0] for row in order], several=several), _heads(cells, several=several)
    if len(columns) > 1:
        heads.append(f"lowest\nof {len(columns)}")
    with figures.style():
        beside = 0.3 + 0.075 * max(map(len, names))
        width, height = beside + CELL[0] * len(heads), 1.4 + CELL[1] * len(names)
        drawing, axis = figures.figure(1, 1, width=width, height=height)
        for y, row in enumerate(order):
            for c in rows[row]:
                _draw(axis, columns[c.space, c.dataset], y, c.tau, bold=c.own)
            if len(columns) > 1:
                _draw(axis, len(columns), y, least[row], bold=False)
        axis.set_xlim(-0.5, len(heads) - 0.5)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.set_xticks(range(len(heads)), heads)
        axis.set_yticks(range(len(names)), names)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
        figures.save(drawing, path)


def _draw(axis: Any, x: int, y: int, tau: float, *, bold: bool) -> None:
    """Draw one cell with its number."""
    import matplotlib as mpl

    fill = "0.9" if math.isnan(tau) else mpl.colors.to_hex(mpl.colormaps["RdBu"]((tau + 1) / 2))
    axis.add_patch(mpl.patches.Rectangle((x - 0.5, y - 0.5), 1, 1, fc=fill, ec="white"))
    ink, weight = "white" if abs(tau) > 0.65 else "black", "bold" if bold else "normal"
    text = number(tau, 2, zero=True, missing="nan")
    axis.text(x, y, text, ha="center", va="center", color=ink, weight=weight)


def _lowest(cells: Sequence[Cell], boards: int) -> float:
    """Return the lowest tau of a proxy; NaN if it has none on some board."""
    return min(c.tau for c in cells) if len(cells) == boards and all(math.isfinite(c.tau) for c in cells) else math.nan


def _names(rows: Sequence[Cell], *, several: bool) -> list[str]:
    """Return the names of rows: what a program reads, where it was evolved, and the number of images."""
    everywhere = len({c.evolved for c in rows if c.program}) == 1
    names = []
    for c in rows:
        grounds = [] if everywhere else c.evolved.split()
        whence = f" from {len(grounds)} grounds" if len(grounds) > 1 else "".join(f" from {g}" for g in grounds)
        names.append(f"{reading(c.program) or c.proxy}{whence}" + (f" ({c.batch_size})" if several else ""))
    return names


def _heads(cells: Sequence[Cell], *, several: bool) -> list[str]:
    """Return the heads of columns: the board, its networks, and the number of images."""
    heads: dict[tuple[str, str], str] = {}
    for c in cells:
        images = "" if several or not c.batch_size else f"\n{c.batch_size} image{'s' * (c.batch_size > 1)}"
        networks = max(other.networks for other in cells if (other.space, other.dataset) == (c.space, c.dataset))
        head = f"{c.space}\n{c.dataset}\n{networks} networks"
        heads[c.space, c.dataset] = max(head + images, heads.get((c.space, c.dataset), ""), key=len)
    return list(heads.values())
