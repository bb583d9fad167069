"""A leaderboard as one HTML page that needs nothing else: sortable tables with intervals drawn in them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ..results.ablation import Ablation
from ..results.board import Board
from ..results.pairs import Agreed, Comparison, Transferred
from ..results.ranking import Detail, Ranking
from ..results.standing import BASELINES, Standing
from .figures import Drawing, inline
from .published import published

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1c2430 }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.5rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid #e3e7ee; white-space: nowrap }
th { cursor: pointer; font-weight: 600; background: #f5f7fa; position: sticky; top: 0 }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left }
td:last-child { white-space: normal; color: #5b6675; font-size: .85rem }
tr.baseline td:first-child { font-style: italic }
details { margin: .5rem 0; color: #5b6675 } pre { white-space: pre-wrap; font-size: .8rem }
table.plain { width: auto; margin: .5rem 0 } table.plain td:last-child { font-size: inherit; color: inherit }
table.matrix { width: auto; font-size: .72rem } table.matrix td, table.matrix th { padding: .1rem .3rem }
table.matrix thead th { writing-mode: vertical-rl; position: static; text-align: left; cursor: auto }
.board { overflow-x: auto } h2 small { font-weight: 400; color: #5b6675 }
figure { margin: 1rem 0; overflow-x: auto } figcaption { font-size: .85rem; color: #5b6675 }
svg { vertical-align: middle }
"""
_SORT = """
for (const th of document.querySelectorAll('table:not(.matrix) thead th')) th.onclick = () => {
  const body = th.closest('table').tBodies[0], column = th.cellIndex, key = r => r.cells[column].dataset.v;
  const up = th.dataset.up = th.dataset.up === '1' ? '0' : '1';
  const rows = [...body.rows].sort((a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b))
    : key(a) - key(b));
  body.append(...(up === '1' ? rows.reverse() : rows));
};
"""
_HEADINGS = (
    ("proxy", "its name; baselines that have no claim are in italics"),
    ("batch", "images in the probe batch"),
    ("ρ", "Spearman's rho, signed"),
    ("95 %", "bootstrap over networks, from -1 to 1"),
    ("τ", "Kendall's tau-b, signed"),
    ("95 %", "bootstrap over networks, from -1 to 1"),
    ("τ top 10 % by accuracy", "among the most accurate networks"),
    ("τ top 10 % by score", "among those with the highest scores"),
    ("overlap", "share of the one top 10 % that is in the other"),
    ("regret", "percent by which the best of the ten highest scores misses the best network"),
    (
        "ρ | params",
        "partial Spearman: what is left when parameters are taken out of scores and accuracies; * if the sign turns",
    ),
    ("ρ | MACs", "the same of multiply-accumulates"),
    ("cover", "share of finite scores"),
    ("ms", "median per network, alone"),
    ("published ρ / τ", "by others, on the networks named in the last column"),
    ("source", "of the published figures"),
)
#: A difference whose p-value after Holm's correction is below this is set in bold.
SIGNIFICANT = 0.05
#: The trace of the kernel, to which HNAS (Shu et al., NeurIPS 2022) relates all measures that use gradients.
TRACE = "ntk_trace"


def page(
    standings: Sequence[Standing],
    ablations: Sequence[Ablation],
    agreements: Sequence[tuple[Board, Agreed]],
    transfers: Sequence[Transferred],
    drawings: Mapping[str, Sequence[Drawing]],
) -> str:
    """Return the page; equal boards give equal bytes.

    Args:
        standings: Board by board.
        ablations: Of boards with several seeds or batch sizes, and of several boards.
        agreements: Between boards on the same networks.
        transfers: What is chosen by one board, by the accuracies of another.
        drawings: By the id of board or ablation; empty without matplotlib.
    """
    by_id = {a.id: a for a in ablations}
    alone = {s.board.id for s in standings}
    sections = [_section(s, by_id.get(s.board.id), drawings.get(s.board.id, ())) for s in standings]
    sections += [
        f"<h2>{_heading(a.title, a.name)}</h2>\n{_spreads(a)}{_figures(drawings.get(a.id, ()))}"
        for a in ablations
        if a.id not in alone
    ]
    if agreements or transfers:
        sections.append("".join(_across(agreements, transfers)))
    missing = "" if drawings else '<p>Figures take matplotlib: pip install "zcbench[report]".</p>\n'
    body = "\n".join(sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>zcbench leaderboard</title>\n'
        f"<style>{_STYLE}</style></head><body>\n<h1>zcbench leaderboard</h1>\n"
        "<p>How well training-free proxies rank networks by their trained accuracy. Click a heading to sort.</p>\n"
        f"{missing}{body}\n<script>{_SORT}</script>\n</body></html>\n"
    )


def _heading(title: str, name: str) -> str:
    return f"{html.escape(title)} <small>{html.escape(name)}</small>"


def _section(standing: Standing, ablation: Ablation | None, drawings: Sequence[Drawing]) -> str:
    board, recipe = standing.board, standing.board.recipe
    heads = "".join(f'<th title="{html.escape(why)}">{html.escape(name)}</th>' for name, why in _HEADINGS)
    rows = "\n".join(map(_row, standing.rankings, standing.details))
    facts = [
        f"board {board.id}",
        f"accuracy: {recipe.truth}: {recipe.label}",
        f"networks: {len(recipe.accuracies)}, seeds: {' '.join(map(str, recipe.seeds))}",
        f"protocol {recipe.protocol}, device {recipe.device}, {recipe.resamples} bootstrap resamples",
        "batches (size/seed: hash): " + ", ".join(f"{s}/{k}: {digest}" for (s, k), digest in recipe.batches.items()),
        "versions: " + ", ".join(f"{name} {version}" for name, version in recipe.versions.items()),
        *([f"left out, as a newer run has another version: {', '.join(board.superseded)}"] if board.superseded else []),
        *(", ".join(f"{name} {version}" for name, version in of.items()) for of in board.environments),
    ]
    return (
        f'<h2>{_heading(board.title, board.name)}</h2>\n<div class="board"><table><thead><tr>{heads}</tr>'
        f"</thead><tbody>\n{rows}\n</tbody></table></div>\n"
        f"{_spreads(ablation) if ablation else ''}{_figures(drawings)}{''.join(_matrices(standing))}"
        f"{_traces(standing)}"
        f"<details><summary>recipe</summary><pre>{html.escape(chr(10).join(facts))}</pre></details>"
    )


def _figures(drawings: Sequence[Drawing]) -> str:
    return "".join(
        f"<figure>{inline(d.svg)}<figcaption>{html.escape(d.caption)}</figcaption></figure>\n" for d in drawings
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in headings)
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f'<table class="plain"><thead><tr>{heads}</tr></thead><tbody>\n{body}</tbody></table>'


def _spreads(ablation: Ablation) -> str:
    """Return what seeds do, proxy by proxy, and whether coefficients grow with the batch."""
    headings = ("proxy", "batch", "seeds", "ρ", "sd", "τ", "95 % of networks", "sd", "95 % of seeds", "agreement τ")
    rows = [
        (
            _cell(s.proxy),
            _cell(s.batch_size),
            _cell(s.seeds),
            _cell(s.rho, _number(s.rho)),
            _cell(s.rho_sd, _number(s.rho_sd)),
            _cell(s.tau, _number(s.tau)),
            _cell(s.tau_low, _range(s.tau_low, s.tau_high)),
            _cell(s.tau_sd, _number(s.tau_sd)),
            _cell(s.tau_sd_low, _range(s.tau_sd_low, s.tau_sd_high)),
            _cell(s.seed_tau, _number(s.seed_tau)),
        )
        for s in ablation.spreads
    ]
    found = f"<details><summary>seeds and batch sizes</summary>{_table(headings, rows)}"
    means = [t for t in ablation.trends if t.seed is None]
    if means:
        growth = ("proxy", "batches", "τ per doubling", "95 % of networks", "95 % of seeds", "seeds that rise")
        grown = [
            (
                _cell(t.proxy),
                _cell(" ".join(map(str, t.batch_sizes))),
                _cell(t.tau, _number(t.tau)),
                _cell(t.tau_low, _range(t.tau_low, t.tau_high)),
                _cell(t.tau_seed_low, _range(t.tau_seed_low, t.tau_seed_high)),
                _cell(t.tau_rising, f"{t.tau_rising} of {sum(own.proxy == t.proxy for own in ablation.trends) - 1}"),
            )
            for t in means
        ]
        found += _table(growth, grown)
    return f"{found}</details>\n"


def _matrices(standing: Standing) -> Iterator[str]:
    """Yield by how much every proxy ranks better than every other, batch size by batch size."""
    sample = standing.sample
    order = {(r.proxy, r.batch_size): place for place, r in enumerate(standing.rankings)}
    for family in dict.fromkeys(name for name, _ in standing.comparisons):
        cells: dict[tuple[int, int], tuple[Comparison, int]] = {}
        labels: dict[int, str] = {}
        for name, row in standing.comparisons:
            if name == family:
                a, b = (order[panel.proxy, panel.batch_size] for panel in (row.first, row.second))
                labels |= {a: sample.label(row.first), b: sample.label(row.second)}
                cells[max(a, b), min(a, b)] = row, 1 if a < b else -1
        places = sorted(labels)
        heads = "".join(f"<th>{html.escape(labels[place])}</th>" for place in places[:-1])
        rows = "\n".join(
            f"<tr><td>{html.escape(labels[a])}</td>{''.join(_gap(*cells[a, b]) for b in places if b < a)}</tr>"
            for a in places[1:]
        )
        at = f", batches of {family}" if family else ""
        yield (
            f"<details><summary>differences of Kendall τ{at}: column less row, on the networks that both scored, in "
            f"the direction that each claims; bold where p &lt; {SIGNIFICANT} after Holm</summary>"
            f'<table class="matrix"><thead><tr><th></th>{heads}</tr></thead><tbody>\n{rows}</tbody></table></details>\n'
        )


def _gap(row: Comparison, sign: int) -> str:
    gap = row.tau
    low, high = sorted((sign * gap.low, sign * gap.high)) if not math.isnan(gap.low) else (math.nan, math.nan)
    shown = _number(sign * gap.difference)
    strong = f"<b>{shown}</b>" if gap.p_holm < SIGNIFICANT else shown
    return f'<td title="{_range(low, high)}, p {gap.p_holm:.2g}, {row.n} networks">{strong}</td>'


def _traces(standing: Standing) -> str:
    """Return how alike all proxies and the trace of the kernel rank, where that is among them."""
    found: dict[str, Agreed] = {}
    for _, row in standing.agreements:
        names = {row.first, row.second}
        found |= {other: row for other in names - {TRACE} if TRACE in names}
    if not found:
        return ""
    rows = [
        (_cell(name), _cell(r.n), _cell(r.rho, _number(r.rho)), _cell(r.tau, _number(r.tau)))
        for name, r in sorted(found.items(), key=lambda item: (-np.nan_to_num(item[1].rho, nan=-2), item[0]))
    ]
    return (
        f"<details><summary>agreement with {TRACE}, the trace of the kernel (HNAS)</summary>"
        f"{_table(('proxy', 'networks', 'ρ', 'τ'), rows)}</details>\n"
    )


def _across(agreements: Sequence[tuple[Board, Agreed]], transfers: Sequence[Transferred]) -> Iterator[str]:
    """Yield what boards on the same networks say of each other."""
    yield "<h2>Across boards on the same networks</h2>\n"
    if agreements:
        yield "<details><summary>agreement of accuracies, and of the scores of a proxy on two data sets</summary>"
        rows = [
            (
                _cell(board.recipe.space),
                _cell(row.kind),
                _cell(row.proxy),
                _cell("" if row.batch_size is None else row.batch_size),
                _cell(row.first),
                _cell(row.second),
                _cell(row.n),
                _cell(row.rho, _number(row.rho)),
                _cell(row.tau, _number(row.tau)),
            )
            for board, row in agreements
        ]
        yield _table(("space", "of", "proxy", "batch", "first", "second", "networks", "ρ", "τ"), rows)
        yield "</details>\n"
    if transfers:
        yield (
            "<details><summary>chosen by the scores on one data set, looked up in the accuracies of another</summary>"
        )
        rows = [
            (
                _cell(t.source.title),
                _cell(t.proxy),
                _cell(t.batch_size),
                _cell(t.truth),
                _cell(t.rho, _number(t.rho)),
                _cell(t.tau, _number(t.tau)),
                _cell(t.best, "" if math.isnan(t.best) else f"{t.best:.2f}"),
                _cell(t.regret, "" if math.isnan(t.regret) else f"{t.regret:.2f}"),
                _cell(t.percentile, "" if math.isnan(t.percentile) else f"{t.percentile:.1f}"),
            )
            for t in transfers
        ]
        yield _table(
            ("scores of", "proxy", "batch", "accuracy", "ρ", "τ", "best of ten", "regret", "percentile of best"), rows
        )
        yield "</details>\n"


def _range(low: float, high: float) -> str:
    return "" if math.isnan(low) or math.isnan(high) else f"{_number(low)} to {_number(high)}"


def _row(r: Ranking, d: Detail) -> str:
    c = r.correlation
    given = [d.conditional[name] for name in ("given_params", "given_macs")]
    theirs = published().get((r.space, r.accuracy.partition("/")[0], r.proxy))
    figures = [_number(value) for value in (theirs.rho, theirs.tau)] if theirs else []
    cells = [
        _cell(r.proxy, html.escape(r.proxy)),
        _cell(r.batch_size),
        _cell(c.rho, _number(c.rho)),
        _cell(c.rho, _interval(c.rho, c.rho_low, c.rho_high)),
        _cell(c.tau, _number(c.tau)),
        _cell(c.tau, _interval(c.tau, c.tau_low, c.tau_high)),
        _cell(c.tau_top_accuracy, _number(c.tau_top_accuracy)),
        _cell(c.tau_top_score, _number(c.tau_top_score)),
        _cell(c.top_overlap, _number(c.top_overlap)),
        _cell(d.regret_at_10, "" if math.isnan(d.regret_at_10) else f"{d.regret_at_10:.2f}"),
        *(_cell(g.rho, _number(g.rho) + ("*" if g.rho_sign_change else "")) for g in given),
        _cell(r.coverage, f"{100 * r.coverage:.1f}%"),
        _cell(r.ms, f"{r.ms:.3g}"),
        _cell(theirs.rho if theirs and theirs.rho is not None else math.nan, " / ".join(figures)),
        _cell(
            "",
            html.escape(f"{theirs.networks:,} networks, {theirs.source}" if theirs else r.pool and f"pool: {r.pool}"),
        ),
    ]
    kind = ' class="baseline"' if r.proxy in BASELINES else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _cell(value: float | str, shown: str | None = None) -> str:
    return f'<td data-v="{html.escape(str(value))}">{html.escape(str(value)) if shown is None else shown}</td>'


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.3f}".replace("0.", ".", 1)


def _interval(value: float, low: float, high: float) -> str:
    """Draw an interval on the line from -1 to 1."""
    if math.isnan(value) or math.isnan(low):
        return ""
    middle, left, right = (60 + 55 * v for v in (value, low, high))
    return (
        f'<svg width="120" height="14" role="img" aria-label="{low:.2f} to {high:.2f}">'
        f"<title>{low:.2f} to {high:.2f}</title>"
        '<path d="M5 7H115M60 2V12" stroke="#c9d1dc"/>'
        f'<path d="M{left:.1f} 7H{right:.1f}" stroke="#2b6cb0" stroke-width="4"/>'
        f'<circle cx="{middle:.1f}" cy="7" r="3.2" fill="#1a365d"/></svg>'
    )
