"""One proxy against others, as a table of one line a pair, as plain values, and as a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ..results.board import Board
from ..results.pairs import Comparison
from ..results.rivals import Against, Lowest
from ..stats.top import FEWEST
from .figures import as_svg, figure, style
from .numbers import estimate, null_if_not_finite, number

#: A difference is called so if its p-value after Holm's correction is smaller.
LEVEL = 0.05
#: What is said of a pair without coefficients.
_BLANK = "no answer"
_INK, _BLUE, _GREY = "#1c2430", "#2b6cb0", "#9aa5b4"


def as_table(found: Against) -> Table:
    """Lay out one board in at most 80 columns, one line a pair."""
    first = found.first
    blank = any(verdict(row) == _BLANK for row in found.comparisons)
    table = Table(
        title=Text(f"{first} against others: {found.board.name}"),  # brackets in it are no markup
        title_justify="left",
        caption=(
            "no intervals: the networks are all of the space"
            if found.census
            else "τ: Kendall; difference: paired over resamples, 95 %; p: Holm over all pairs"
        )
        + f"; {_BLANK}: fewer than {FEWEST} networks, or equal scores" * blank,
        caption_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("against", no_wrap=True)
    for heading in ("its τ", f"τ of {first}", "difference", "p", *(["networks"] if _fewer(found) else [])):
        table.add_column(Text(heading), justify="right", no_wrap=heading == "difference")
    table.add_column("")
    names = _names(found)
    for name, row in zip(names, found.comparisons, strict=True):
        tau = row.tau
        table.add_row(
            Text(name),
            number(tau.second),
            number(tau.first),
            estimate(tau.difference, tau.low, tau.high, sign="+"),
            p_value(tau.p_holm),
            *([str(row.n)] if _fewer(found) else []),
            verdict(row),
        )
    return table


def _fewer(found: Against) -> bool:
    """Return whether a pair has fewer networks with scores of both than the board has."""
    return any(row.n < len(found.board.recipe.accuracies) for row in found.comparisons)


def lowest_table(rows: Sequence[Lowest], count: int) -> Table:
    """Lay out the lowest tau over several boards in at most 80 columns, one line a pair."""
    first = rows[0]
    known = {board.id: board for row in rows for board in (row.first_on, row.second_on)}
    on = _short(list(known.values()))
    # With another rival, it may have been measured on other networks.
    own = dict.fromkeys(f"{number(row.tau.first)} on {on[row.first_on.id]}" for row in rows)
    table = Table(
        title=Text(f"{first.first} against others, each where it ranks worst of {count} boards"),
        title_justify="left",
        caption=Text(
            f"lowest τ of {first.first}: {'; '.join(own)}; difference: of the two lowest, which may be of two boards, "
            "over joint resamples of all boards, 95 %; p: Holm over all pairs"
        ),
        caption_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("against", no_wrap=True)
    for heading in ("lowest τ", "on", "difference", "p", ""):
        table.add_column(
            heading,
            justify="left" if heading in {"on", ""} else "right",
            overflow="fold",
            no_wrap=heading == "difference",
        )
    for row in rows:
        tau = row.tau
        table.add_row(
            Text(row.second),
            number(tau.second),
            on[row.second_on.id],
            estimate(tau.difference, tau.low, tau.high, sign="+"),
            p_value(tau.p_holm),
            verdict(row),
        )
    return table


def _short(boards: Sequence[Board]) -> dict[str, str]:
    """Return short names of boards by id: that of the space, and what else tells them apart."""
    names = {board.id: board.recipe.space for board in boards}
    datasets = {board.id: f", {board.recipe.dataset}" for board in boards}
    sizes = {board.id: f" ({len(board.recipe.accuracies)})" for board in boards}
    images = {board.id: " @" + ",".join(map(str, board.recipe.batch_sizes)) for board in boards}
    for more in (datasets, sizes, images):
        counts = Counter(names.values())
        names = {key: name + more[key] * (counts[name] > 1) for key, name in names.items()}
    return names


def as_records(found: Sequence[Against], least: Sequence[Lowest] = ()) -> list[dict[str, Any]]:
    """Return plain values of all pairs, a record for each; a number that is not finite is None.

    Pairs over all boards come last, and name the boards of the lowest coefficients in `first_on` and `second_on`.
    """
    records: list[dict[str, Any]] = null_if_not_finite(
        [
            *(
                each.board.identity() | row.flat() | {"verdict": verdict(row)}
                for each in found
                for row in each.comparisons
            ),
            *(
                {"first": row.first, "first_on": row.first_on.id, "second": row.second, "second_on": row.second_on.id}
                | {f"lowest_tau_{key}": value for key, value in vars(row.tau).items()}
                | {"verdict": verdict(row)}
                for row in least
            ),
        ]
    )
    return records


def verdict(row: Comparison | Lowest) -> str:
    """Say whether the first proxy ranks better or worse, or that the networks do not decide it.

    Without resamples, as for all networks of a space, the sign of the difference decides.
    """
    tau = row.tau
    if tau.difference != tau.difference:
        return _BLANK
    if tau.p_holm == tau.p_holm and not tau.p_holm < LEVEL:
        return "undecided"
    return "better" if tau.difference > 0 else "worse" if tau.difference < 0 else "equal"


def p_value(p: float) -> str:
    """Write a p-value with three digits.

    >>> p_value(0.0312), p_value(0.00002), p_value(float("nan"))
    ('.031', '<.001', '')
    """
    return "<.001" if p < 0.001 else number(p)


def draw(found: Sequence[Against]) -> str:
    """Draw the differences of Kendall's tau with their intervals, a panel for each board, as SVG.

    Raises:
        ResultsError: matplotlib is not installed.
    """
    first = found[0].first
    with style():
        heights = [0.6 + 0.26 * len(each.comparisons) for each in found]
        made, grid = figure(
            len(found),
            1,
            width=6.4,
            height=0.5 + sum(heights),
            title=f"Kendall τ of {first} less that of another proxy, 95 % over networks",
            squeeze=False,
            sharex=True,
            height_ratios=heights,
        )
        for axes, each in zip(grid[:, 0], found, strict=True):
            rows = each.comparisons[::-1]
            for height, row in enumerate(rows):
                tau = row.tau
                colour = _BLUE if verdict(row) in {"better", "worse"} else _GREY
                axes.plot([tau.low, tau.high], [height] * 2, color=colour, lw=2.2, solid_capstyle="butt")
                axes.plot([tau.difference], [height], color=_INK, ls="", marker="o", ms=3.6)
            axes.axvline(0, color=_INK, lw=0.8)
            axes.set_title(each.board.name, fontsize=8)
            of = [f" ({row.n} networks)" if row.n < len(each.board.recipe.accuracies) else "" for row in rows]
            names = _names(each)[::-1]
            axes.set_yticks(range(len(rows)), [f"less {name}{n}" for name, n in zip(names, of, strict=True)])
            axes.set_ylim(-0.7, len(rows) - 0.3)
            axes.tick_params(axis="y", length=0)
        grid[-1, 0].set_xlabel(f"right of 0, {first} ranks better")
        return as_svg(made, f"{first} against others")


def _names(found: Against) -> list[str]:
    """Return the name of the other proxy of every pair, with its batch size where that tells pairs apart."""
    rows = found.comparisons
    sizes = [row.first.batch_size or row.second.batch_size for row in rows]
    several = len(set(sizes)) > 1
    return [
        f"{row.second.proxy} @{size}" if several else row.second.proxy for row, size in zip(rows, sizes, strict=True)
    ]
