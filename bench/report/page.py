"""A leaderboard as one HTML page that needs nothing else: sortable tables with intervals drawn in them."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from ..board import Board
from ..detail import Detail
from ..summary import Ranking
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
svg { vertical-align: middle }
"""
_SORT = """
for (const th of document.querySelectorAll('th')) th.onclick = () => {
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
_BASELINES = {"params", "macs", "random"}


def page(standings: Sequence[tuple[Board, Sequence[Ranking], Sequence[Detail]]]) -> str:
    """Return the page; equal boards give equal bytes."""
    sections = "\n".join(_section(*standing) for standing in standings)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>zcbench leaderboard</title>\n'
        f"<style>{_STYLE}</style></head><body>\n<h1>zcbench leaderboard</h1>\n"
        "<p>How well training-free proxies rank networks by their trained accuracy. Click a heading to sort.</p>\n"
        f"{sections}\n<script>{_SORT}</script>\n</body></html>\n"
    )


def _section(board: Board, rankings: Sequence[Ranking], details: Sequence[Detail]) -> str:
    recipe = board.recipe
    heads = "".join(f'<th title="{html.escape(why)}">{html.escape(name)}</th>' for name, why in _HEADINGS)
    rows = "\n".join(map(_row, rankings, details))
    facts = [
        f"accuracy: {recipe.truth}: {recipe.label}",
        f"networks: {len(recipe.accuracies)}, seeds: {' '.join(map(str, recipe.seeds))}",
        f"protocol {recipe.protocol}, device {recipe.device}, {recipe.resamples} bootstrap resamples",
        "batches (size/seed: hash): " + ", ".join(f"{s}/{k}: {digest}" for (s, k), digest in recipe.batches.items()),
        "versions: " + ", ".join(f"{name} {version}" for name, version in recipe.versions.items()),
        *(", ".join(f"{name} {version}" for name, version in of.items()) for of in board.environments),
    ]
    return (
        f"<h2>{html.escape(board.name)}</h2>\n<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table>\n"
        f"<details><summary>recipe</summary><pre>{html.escape(chr(10).join(facts))}</pre></details>"
    )


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
        _cell(d.regret_10, "" if math.isnan(d.regret_10) else f"{d.regret_10:.2f}"),
        *(_cell(g.rho, _number(g.rho) + ("*" if g.rho_sign_change else "")) for g in given),
        _cell(r.coverage, f"{100 * r.coverage:.1f}%"),
        _cell(r.ms, f"{r.ms:.3g}"),
        _cell(theirs.rho if theirs and theirs.rho is not None else math.nan, " / ".join(figures)),
        _cell(
            "",
            html.escape(f"{theirs.networks:,} networks, {theirs.source}" if theirs else r.pool and f"pool: {r.pool}"),
        ),
    ]
    kind = ' class="baseline"' if r.proxy in _BASELINES else ""
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
