"""The leaderboard as one HTML page that needs nothing else. This file prepares the data; `templates/` has the HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import jinja2
import numpy as np

from ..results.board import Board
from ..results.overview import Leaderboard
from ..results.pairs import Agreed, Comparison
from ..results.standing import BASELINES, Standing
from .figures import Drawing, inline
from .numbers import number, percent, significant
from .published import published

#: Differences with a p-value below this, after Holm's correction, are bold.
SIGNIFICANT = 0.05
#: Trace of the neural tangent kernel. HNAS (Shu et al., NeurIPS 2022) relates all proxies that use gradients to it.
TRACE = "ntk_trace"


class Matrix(NamedTuple):
    """Differences between every proxy and every proxy below it in the table.

    Attributes:
        batches: Batch size of all proxies in words, or nothing.
        labels: Names of the proxies, in the order of the table.
        rows: One row of gaps per label but the first: the gap to every label before it.
    """

    batches: str
    labels: Sequence[str]
    rows: Sequence[Sequence[Gap]]


class Gap(NamedTuple):
    """The difference of Kendall's tau between two proxies.

    Attributes:
        difference: Tau of the column minus tau of the row.
        low: Lower end of its 95 % interval.
        high: Upper end.
        p: p-value after Holm's correction.
        n: Number of networks that both proxies scored.
    """

    difference: float
    low: float
    high: float
    p: float
    n: int


def environment() -> jinja2.Environment:
    """Return the Jinja environment of the templates, which escapes every value that a template prints."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "percent": percent, "significant": significant, "inline": inline}
    return made


def page(made: Leaderboard, drawings: Mapping[str, Sequence[Drawing]]) -> str:
    """Return the page as HTML; equal boards give equal bytes.

    Args:
        made: All results of the boards.
        drawings: Figures by the id of board or ablation; empty without matplotlib.
    """
    boards = {standing.board.id for standing in made.standings}
    sections = [
        {
            "board": s.board,
            "rows": [(r, d, published(r)) for r, d in zip(s.rankings, s.details, strict=True)],
            "ablation": s.ablation,
            "matrices": list(_matrices(s)),
            "traces": _traces(s),
            "facts": _facts(s.board),
        }
        for s in made.standings
    ]
    template = environment().get_template("page.html")
    return template.render(
        sections=sections,
        ablations=[ablation for ablation in made.ablations if ablation.id not in boards],
        agreements=made.agreements,
        transfers=made.transfers,
        drawings=drawings,
        baselines=BASELINES,
        significant_p=SIGNIFICANT,
        trace=TRACE,
    )


def _facts(board: Board) -> list[str]:
    """Return the recipe of a board, line by line."""
    recipe = board.recipe
    return [
        f"board {board.id}",
        f"accuracy: {recipe.truth}: {recipe.label}",
        f"networks: {'' if recipe.resamples else 'all '}{len(recipe.accuracies)}, "
        f"seeds: {' '.join(map(str, recipe.seeds))}",
        f"protocol {recipe.protocol}, device {recipe.device}, torch {recipe.torch}, "
        + (f"{recipe.resamples} bootstrap resamples" if recipe.resamples else "a census, without sampling intervals"),
        "batches (size/seed: hash): " + ", ".join(f"{s}/{k}: {digest}" for (s, k), digest in recipe.batches.items()),
        "versions: " + ", ".join(f"{name} {version}" for name, version in recipe.versions.items()),
        *([f"left out, as a newer run has another version: {', '.join(board.superseded)}"] if board.superseded else []),
        *(", ".join(f"{name} {version}" for name, version in of.items()) for of in board.environments),
    ]


def _matrices(standing: Standing) -> Iterator[Matrix]:
    """Yield the differences between proxies, batch size by batch size."""
    order = {(r.proxy, r.batch_size): place for place, r in enumerate(standing.rankings)}
    for family in dict.fromkeys(name for name, _ in standing.comparisons):
        labels: dict[int, str] = {}
        gaps: dict[tuple[int, int], Gap] = {}
        for name, row in standing.comparisons:
            if name == family:
                a, b = (order[panel.proxy, panel.batch_size] for panel in (row.first, row.second))
                labels |= {a: standing.sample.label(row.first), b: standing.sample.label(row.second)}
                gaps[max(a, b), min(a, b)] = _gap(row, 1 if a < b else -1)
        places = sorted(labels)
        yield Matrix(
            f", batches of {family}" if family else "",
            [labels[place] for place in places],
            [[gaps[a, b] for b in places if b < a] for a in places[1:]],
        )


def _gap(row: Comparison, sign: int) -> Gap:
    low, high = sorted((sign * row.tau.low, sign * row.tau.high)) if not math.isnan(row.tau.low) else (math.nan,) * 2
    return Gap(sign * row.tau.difference, low, high, row.tau.p_holm, row.n)


def _traces(standing: Standing) -> list[tuple[str, Agreed]]:
    """Return how alike every proxy and `TRACE` rank, the most alike first; nothing if `TRACE` was not scored."""
    found: dict[str, Agreed] = {}
    for _, row in standing.agreements:
        names = {row.first, row.second}
        found |= {other: row for other in names - {TRACE} if TRACE in names}
    return sorted(found.items(), key=lambda item: (-np.nan_to_num(item[1].rho, nan=-2), item[0]))
