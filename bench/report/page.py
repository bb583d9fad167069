"""The leaderboard as one HTML page that needs nothing else. This file prepares the data; `templates/` has the HTML."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import jinja2
import numpy as np

from ..results.board import Board
from ..results.overview import Leaderboard, Overall
from ..results.pairs import Agreed
from ..results.ranking import Detail, Ranking
from ..results.standing import BASELINES, Standing
from ..stats.conditional import Conditional
from ..stats.correlation import Coefficients, Correlation
from ..stats.places import Place
from .beside import NOTHING, Beside, Search
from .charts import chart
from .families import FAMILIES
from .figures import Drawing, inline
from .marks import OWN, SPACES, Marks, marks
from .numbers import interval, milliseconds, null_if_not_finite, number, percent, significant
from .published import Published, published

C = TypeVar("C", bound=Coefficients)

#: Trace of the neural tangent kernel. HNAS (Shu et al., NeurIPS 2022) relates all proxies that use gradients to it.
TRACE = "ntk_trace"


class Column(NamedTuple):
    """A column of the table of a board.

    Attributes:
        key: Name of the column in classes and links.
        title: Its heading.
        says: What it says, in a sentence.
        shown: Whether it is visible before a reader chooses columns.
    """

    key: str
    title: str
    says: str
    shown: bool = False


COLUMNS = (
    Column("rank", "rank", "Rank by Kendall's tau; in brackets the ranks that the data leave open", shown=True),
    Column("proxy", "proxy", "Name of the proxy; it opens the row", shown=True),
    Column("tau", "Kendall τ", "Kendall's tau-b with its 95 % interval over networks, on one axis", shown=True),
    Column("rho", "Spearman ρ", "Spearman's rho", shown=True),
    Column(
        "top",
        "τ in the top 10 %",
        "Kendall's tau-b among the 10 % most accurate networks | among the 10 % with the highest scores",
        shown=True,
    ),
    Column(
        "ms", "ms", "Milliseconds per network, the median, with all passes of the proxy counted in full", shown=True
    ),
    Column("cover", "cover", "Share of the scores that are finite", shown=True),
    Column("rho-ci", "ρ 95 %", "95 % interval of rho over networks"),
    Column("overlap", "overlap", "Share of the 10 % highest scores that are among the 10 % most accurate networks"),
    Column("regret", "regret", "Best accuracy less the best of the ten highest scores, in percentage points"),
    Column("best", "best at", "Percentage of the other networks that score below the most accurate network"),
    Column("ndcg", "nDCG", "Normalised discounted cumulative gain of the 10 % with the highest scores"),
    Column("weighted", "weighted τ", "Weighted tau, in which pairs at the top weigh most"),
    Column("pearson", "Pearson r", "Pearson's r of scores and accuracies"),
    Column("ties", "ties", "Share of pairs of scores that are equal"),
    Column("given_params", "ρ | params", "Rho when the number of parameters is taken out; * if the sign changes"),
    Column("given_macs", "ρ | MACs", "Rho when the multiply-accumulates are taken out; * if the sign changes"),
    Column("published", "published ρ | τ", "Coefficients that others have published; the source is in the opened row"),
    Column("batch", "batch", "Number of images in the probe batch"),
    Column("version", "version", "Version of the proxy: it goes up when a score changes"),
)
#: What the conditions of `Detail.conditional` are called.
CONDITIONS = {
    "given_params": "params taken out",
    "given_macs": "MACs taken out",
    "within_convolutions": "within equal numbers of convolutions",
    "among_classes": "among one network of every class",
    "among_reachable": "among networks without unreachable operations",
}


class Row(NamedTuple):
    """One proxy on one board, in the direction that it claims.

    Attributes:
        label: Name that no other row of the board has.
        correlation: Coefficients, positive where the proxy ranks as it claims.
        conditional: Coefficients under conditions, in the same direction.
        sign: 1, or -1 for a proxy of which a lower score is better.
    """

    label: str
    ranking: Ranking
    place: Place | None
    detail: Detail
    correlation: Correlation
    conditional: Mapping[str, Conditional]
    sign: int
    published: Published | None
    marks: Marks


def environment() -> jinja2.Environment:
    """Return the Jinja environment of the templates, which escapes every value that a template prints."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "percent": percent,
        "significant": significant,
        "milliseconds": milliseconds,
        "inline": inline,
    }
    made.globals |= {"interval": interval, "isnan": math.isnan}
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def page(made: Leaderboard, drawings: Mapping[str, Sequence[Drawing]], beside: Beside = NOTHING) -> str:
    """Return the page as HTML; equal boards give equal bytes.

    Args:
        made: All results of the boards.
        drawings: Figures by the id of board or ablation; empty without matplotlib.
        beside: What is shown beside the scores.
    """
    boards = {standing.board.id for standing in made.standings}
    sections = [_section(standing) for standing in made.standings]
    names = sorted({overall.proxy for overall in made.overall})
    spaces = {standing.board.recipe.space for standing in made.standings}
    tuned = {name for name in names if any(marks(name).tuned_here(space) for space in spaces)}
    template = environment().get_template("page.html")
    return template.render(
        sections=sections,
        overall=made.overall,
        summary=_summary(made, tuned),
        tuned=tuned,
        ablations=[ablation for ablation in made.ablations if ablation.id not in boards],
        agreements=made.agreements,
        transfers=made.transfers,
        drawings=drawings,
        baselines=BASELINES,
        columns=COLUMNS,
        families=list(FAMILIES.values()),
        own=OWN,
        conditions=CONDITIONS,
        marks={name: marks(name) for name in names},
        proxies=_filtered(made.overall),
        trace=TRACE,
        spaces={name: SPACES[name][0] for name in sorted(spaces) if SPACES.get(name, (name,))[0] != name},
        searches=beside.searches,
        drawn=[_lines(search) for search in beside.searches],
        programs=beside.programs,
        evolved=_evolved(made.standings, {program.name for program in beside.programs}),
        compared=bool(beside.former),
        changes=beside.changes(made.standings),
    )


def _section(standing: Standing) -> dict[str, object]:
    """Return what the template of a board prints."""
    panels = {(panel.proxy, panel.batch_size): panel for panel in standing.sample.panels}
    labels = [standing.sample.label(panels[r.proxy, r.batch_size]) for r in standing.rankings]
    given = zip(labels, standing.rankings, standing.places, standing.details, strict=True)
    rows = sorted((_row(*of) for of in given), key=lambda row: row.place.rank if row.place else len(labels))
    return {
        "board": standing.board,
        "id": standing.board.id,
        "standing": standing,
        "rows": rows,
        "axis": _axis(row.correlation for row in rows),
        "chart": chart(standing, labels),
        "ablation": standing.ablation,
        "traces": _traces(standing),
        "facts": _facts(standing.board),
        "few": bool(standing.board.recipe.sample_of),
    }


def _row(label: str, ranking: Ranking, place: Place | None, detail: Detail) -> Row:
    sign = 1 if ranking.higher_is_better else -1
    conditional = {name: claimed(of, sign) for name, of in detail.conditional.items()}
    claims = claimed(ranking.correlation, sign)
    return Row(label, ranking, place, detail, claims, conditional, sign, published(ranking), marks(ranking.proxy))


def claimed(coefficients: C, sign: int) -> C:
    """Return coefficients multiplied by 1 or -1; the ends of an interval change places with their signs."""
    values = {name: value for name, value in vars(coefficients).items() if name.startswith(("rho", "tau"))}
    values.pop("rho_sign_change", None)
    if sign == 1:
        return coefficients
    swapped = {name: name.replace("_low", "_high") if name.endswith("_low") else name for name in values}
    swapped |= {name: name.replace("_high", "_low") for name in values if name.endswith("_high")}
    return dataclasses.replace(coefficients, **{name: -values[of] for name, of in swapped.items()})


def _axis(correlations: Iterable[Correlation]) -> tuple[float, float]:
    """Return the ends of the common axis of tau: tenths that hold all intervals and zero."""
    ends = [end for c in correlations for end in (c.tau, c.tau_low, c.tau_high) if math.isfinite(end)] or [0, 1]
    return math.floor(min(0, *ends) * 10) / 10, math.ceil(max(0.1, *ends) * 10) / 10


def _summary(made: Leaderboard, tuned: Collection[str]) -> Mapping[str, object] | None:
    """Return the best proxy over all boards beside the better of params and MACs; None if no proxy is on all boards.

    `equal` are other proxies with the mean rank of the best. `untuned` are the best of those that were not tuned
    on these networks, if the best one was; they have one mean rank.
    """
    ranked = [overall for overall in made.overall if math.isfinite(overall.mean_rank)]
    proper = [overall for overall in ranked if overall.proxy not in BASELINES]
    size = [overall for overall in ranked if overall.proxy in ("params", "macs")]
    if not proper or not size:
        return None
    untuned = [overall for overall in proper if overall.proxy not in tuned] if proper[0].proxy in tuned else []
    ahead = [overall for overall in proper if overall.mean_rank < size[0].mean_rank]
    return {
        "best": proper[0],
        "equal": [of.proxy for of in proper[1:] if of.mean_rank == proper[0].mean_rank],
        "untuned": [of for of in untuned if of.mean_rank == untuned[0].mean_rank],
        "size": size[0],
        "ahead": len(ahead),
        "proper": len(proper),
        "others": sum(overall.not_told_from_best > 0 for overall in proper[1:]),
    }


def _filtered(overall: Sequence[Overall]) -> dict[str, dict[str, object]]:
    """Return what the filters ask of every proxy, and what the chart of costs draws."""
    most = max((len(of.cells) for of in overall), default=0)
    found: dict[str, dict[str, object]] = {}
    for of in overall:
        known = marks(of.proxy)
        found[of.proxy] = {
            "baseline": of.proxy in BASELINES,
            "family": known.family,
            "data": known.data,
            "ms": None if math.isnan(of.ms) else round(of.ms, 3),
            "rank": None if math.isnan(of.mean_rank) else round(of.mean_rank, 2),
            "lowest": None if math.isnan(of.lowest_tau) else round(of.lowest_tau, 3),
            "complete": len(of.cells) == most,
        }
    return found


def _evolved(standings: Sequence[Standing], names: Collection[str]) -> dict[str, list[tuple[Board, Correlation]]]:
    """Return how some proxies rank on every board that has them, in the direction that each claims."""
    found: dict[str, list[tuple[Board, Correlation]]] = {}
    for standing in standings:
        for r in standing.rankings:
            if r.proxy in names:
                correlation = claimed(r.correlation, 1 if r.higher_is_better else -1)
                found.setdefault(r.proxy, []).append((standing.board, correlation))
    return found


def _lines(search: Search) -> dict[str, object]:
    """Return the numbers that the chart of a search draws, for JSON."""
    methods = [
        {"name": of.name, "steps": of.steps, "curve": [[round(value, 4) for value in point] for point in of.curve]}
        for of in search.methods
    ]
    drawn: dict[str, object] = null_if_not_finite({"optimum": search.optimum, "methods": methods})
    return drawn


def _facts(board: Board) -> list[str]:
    """Return the recipe of a board, line by line."""
    recipe = board.recipe
    return [
        f"board {board.id}",
        f"accuracy: {recipe.truth}: {recipe.label}",
        f"networks: {'' if recipe.resamples else 'all '}{len(recipe.accuracies)}, "
        f"seeds: {' '.join(map(str, recipe.seeds))}",
        *[f"the first {count:,} networks alone: {name}" for name, count in recipe.sample_of.items()],
        f"protocol {recipe.protocol}, device {recipe.device}, torch {recipe.torch}, "
        + (f"{recipe.resamples} bootstrap resamples" if recipe.resamples else "a census, without sampling intervals"),
        "batches (size/seed: hash): " + ", ".join(f"{s}/{k}: {digest}" for (s, k), digest in recipe.batches.items()),
        "versions: " + ", ".join(f"{name} {version}" for name, version in recipe.versions.items()),
        *([f"left out, as a newer run has another version: {', '.join(board.superseded)}"] if board.superseded else []),
        *(", ".join(f"{name} {version}" for name, version in of.items()) for of in board.environments),
    ]


def _traces(standing: Standing) -> list[tuple[str, Agreed]]:
    """Return how alike every proxy and `TRACE` rank, the most alike first; nothing if `TRACE` was not scored."""
    found: dict[str, Agreed] = {}
    for _, row in standing.agreements:
        names = {row.first, row.second}
        found |= {other: row for other in names - {TRACE} if TRACE in names}
    return sorted(found.items(), key=lambda item: (-np.nan_to_num(item[1].rho, nan=-2), item[0]))
