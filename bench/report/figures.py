"""Figures of a leaderboard as SVG, equal bytes for equal numbers. They take matplotlib, which nothing else does."""

from __future__ import annotations

import importlib.util
import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...atomic import write_atomically
from ...errors import ResultsError
from ..results.ablation import Ablation, Seed, Spread
from ..results.panel import Panel
from ..results.ranking import CUTS
from ..results.standing import BASELINES, Standing
from ..stats.ranks import Matrix
from ..stats.top import Tops

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How many proxies have a colour of their own where all have a line.
COLOURED = 10
#: How many rows and columns of a heat map still have room for numbers.
NUMBERED = 32

_INK, _BLUE, _PALE, _GREY = "#1c2430", "#2b6cb0", "#bcd3ea", "#9aa5b4"
_NAMES = {"rho": "Spearman ρ", "tau": "Kendall τ"}
_MARK = "zcbench leaderboard"
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "zcbench",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e7ee",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Drawing:
    """A figure.

    Attributes:
        name: Of its file, without an ending.
        caption: What it shows, one sentence or two.
        svg: The file.
    """

    name: str
    caption: str
    svg: str


def available() -> bool:
    """Return whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None


@contextmanager
def style() -> Iterator[None]:
    """Draw in our style, whatever the user's own is: it would change bytes.

    Raises:
        ResultsError: matplotlib is not there.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ResultsError('figures: expected matplotlib, which is not there: pip install "zcbench[report]"') from None
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def figure(rows: int, columns: int, *, width: float, height: float) -> tuple[Figure, Any]:
    """Return a figure of some inches and its axes, as `Figure.subplots` gives them; what is drawn later needs `style`.

    Raises:
        ResultsError: matplotlib is not there.
    """
    with style():
        made = _empty(width, height)
        return made, made.subplots(rows, columns)


def as_svg(made: Figure, title: str = "") -> str:
    """Return a figure as SVG, drawn anew the same bytes; a second call may move its layout by a hair."""
    stream = io.StringIO()
    heading = {"Title": f"{_MARK}: {title}"} if title else {}
    with style():
        made.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, **heading})
    return stream.getvalue()


def save(made: Figure, path: Path) -> None:
    """Write a figure as an SVG file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, as_svg(made).encode())


def is_ours(svg: str) -> bool:
    """Return whether a file was drawn here."""
    return f"<dc:title>{_MARK}" in svg


def inline(svg: str) -> str:
    """Return a drawing as HTML takes it: no address, no metadata, and no names that two drawings would share."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r' xmlns(:\w+)?="[^"]*"', "", body).replace("xlink:href=", "href=")
    return re.sub(r' id="[A-Za-z][\w.]*_\d+"', "", body)


def draw(standings: Sequence[Standing], ablations: Sequence[Ablation]) -> dict[str, list[Drawing]]:
    """Draw all figures of a leaderboard, by the id of board or ablation.

    Raises:
        ResultsError: matplotlib is not there.
    """
    drawings: dict[str, list[Drawing]] = {}
    for ablation in ablations:
        drawings[ablation.id] = list(_of_ablation(ablation))
    for standing in standings:
        drawings[standing.board.id] = [*drawings.get(standing.board.id, []), *_of_standing(standing)]
    return drawings


def by_batch_size(spreads: Sequence[Spread], seeds: Sequence[Seed], title: str) -> str:
    """Draw the correlation of one proxy over the batch size: a line per seed, their mean, and its interval.

    Args:
        spreads: Of the proxy, one per batch size.
        seeds: Of the proxy, one per batch size and seed.
        title: Above the figure.
    """
    rows = sorted((s for s in spreads if s.batch_size > 0), key=lambda s: s.batch_size)
    sizes = [row.batch_size for row in rows]
    with _figure(7.2, 3.1, title) as (made, result):
        for axes, (name, words) in zip(made.subplots(1, 2), _NAMES.items(), strict=True):
            low, high = ([getattr(row, f"{name}_{end}") for row in rows] for end in ("low", "high"))
            axes.fill_between(sizes, low, high, color=_PALE, alpha=0.6, lw=0, label="95 % over networks")
            for label, seed in enumerate(dict.fromkeys(s.seed for s in seeds)):
                own = {s.batch_size: getattr(s, name) for s in seeds if s.seed == seed}
                line = [own.get(size, math.nan) for size in sizes]
                axes.plot(sizes, line, color=_GREY, lw=0.8, label=None if label else "each seed")
            means = [getattr(row, name) for row in rows]
            axes.plot(sizes, means, color=_BLUE, lw=1.8, marker="o", ms=4, label="mean over seeds")
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.minorticks_off()
            axes.set_xlabel("images in the batch")
            axes.set_title(words)
        _legend(made)
    return result[0]


def by_proxy(labels: Sequence[str], spreads: Sequence[Spread], seeds: Sequence[Sequence[Seed]], title: str) -> str:
    """Draw the correlations of all proxies, the highest Spearman on top: every seed, mean, spread and interval.

    Args:
        labels: One per row.
        spreads: One per row.
        seeds: Those of every row.
        title: Above the figure.
    """
    order = sorted(range(len(labels)), key=lambda i: (np.nan_to_num(spreads[i].rho, nan=-2), labels[i]))
    with _figure(8.4, 1.3 + 0.21 * len(labels), title) as (made, result):
        for axes, (name, words) in zip(made.subplots(1, 2, sharey=True), _NAMES.items(), strict=True):
            for height, i in enumerate(order):
                row = spreads[i]
                mean, low, high, sd = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high", "_sd"))
                first = height == 0
                axes.plot(
                    [low, high],
                    [height] * 2,
                    color=_PALE,
                    lw=7,
                    solid_capstyle="butt",
                    label="95 % over networks" if first else None,
                )
                axes.plot(
                    [mean - sd, mean + sd],
                    [height] * 2,
                    color=_BLUE,
                    lw=2.2,
                    solid_capstyle="butt",
                    label="± standard deviation over seeds" if first else None,
                )
                values = [getattr(seed, name) for seed in seeds[i]]
                axes.plot(
                    values,
                    [height] * len(values),
                    ls="",
                    marker="|",
                    ms=6,
                    mew=0.7,
                    color=_INK,
                    label="each seed" if first else None,
                )
                axes.plot([mean], [height], marker="o", ms=3.2, color=_INK, ls="", label="mean" if first else None)
            axes.axvline(0, color=_GREY, lw=0.8)
            axes.set_title(words)
            axes.set_yticks(range(len(order)), [labels[i] for i in order])
            axes.set_ylim(-0.7, len(order) - 0.3)
            axes.tick_params(axis="y", length=0)
        _legend(made)
    return result[0]


def heat_map(labels: Sequence[str], matrix: Matrix, title: str) -> str:
    """Draw how alike columns rank: the lower triangle of a symmetric matrix from -1 to 1, NaN left grey.

    Args:
        labels: One per row and column.
        matrix: `(labels, labels)`.
        title: Above the figure.
    """
    import matplotlib as mpl

    count = len(labels)
    side = 1.9 + 0.25 * count
    with _figure(side + 0.8, side, title) as (made, result):
        axes = made.subplots()
        colours = mpl.colormaps["RdBu"]
        lower = np.tril(np.ones((count, count), dtype=bool), -1)
        # Squares of their own, as an image would be a bitmap.
        for row, column in zip(*np.nonzero(lower), strict=True):
            value = float(matrix[row, column])
            fill = "#e3e7ee" if math.isnan(value) else mpl.colors.to_hex(colours((value + 1) / 2))
            axes.add_patch(mpl.patches.Rectangle((column - 0.5, row - 0.5), 1, 1, fc=fill, ec="white", lw=0.5))
            if count <= NUMBERED and not math.isnan(value):
                ink = "white" if abs(value) > 0.65 else _INK
                axes.text(column, row, _short(value), ha="center", va="center", fontsize=5.8, color=ink)
        axes.set_xlim(-0.6, count - 1.4)
        axes.set_ylim(count - 0.4, 0.4)
        axes.set_aspect("equal")
        axes.grid(visible=False)
        axes.set_xticks(range(count - 1), labels[:-1], rotation=60, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(1, count), labels[1:])
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        bar = made.colorbar(
            mpl.cm.ScalarMappable(mpl.colors.Normalize(-1, 1), mpl.colormaps["RdBu"].resampled(20)),
            ax=axes,
            shrink=0.5,
            aspect=16,
            ticks=[-1, -0.5, 0, 0.5, 1],
        )
        bar.outline.set_visible(False)
        bar.set_label("Spearman ρ")
    return result[0]


def over_cut_off(labels: Sequence[str], curves: Sequence[Tops], title: str) -> str:
    """Draw the top of the ranking over the cut-off; the first `COLOURED` that are no baseline have a colour.

    Args:
        labels: One per curve, the best first.
        curves: One per proxy.
        title: Above the figure.
    """
    import matplotlib as mpl

    panels = (
        ("tau_top_accuracy", "Kendall τ among the most accurate"),
        ("tau_top_score", "Kendall τ among the highest scores"),
        ("precision", "share of one top in the other"),
    )
    proper = [i for i, label in enumerate(labels) if label not in BASELINES]
    cycle = mpl.colormaps["tab10"]
    colours = {i: mpl.colors.to_hex(cycle(place)) for place, i in enumerate(proper[:COLOURED])}
    dashes = dict(zip(BASELINES, ("--", "-.", ":"), strict=True))
    with _figure(10.5, 3.6, title) as (made, result):
        for axes, (name, words) in zip(made.subplots(1, 3), panels, strict=True):
            # What has a colour is drawn last.
            for i in sorted(range(len(labels)), key=lambda i: (i in colours, -i)):
                label, values = labels[i], getattr(curves[i], name)
                if label in BASELINES:
                    style: dict[str, Any] = {"color": _INK, "ls": dashes[label], "lw": 1.0, "label": label}
                elif i in colours:
                    style = {"color": colours[i], "lw": 1.4, "label": label}
                else:
                    style = {"color": _GREY, "lw": 0.5, "label": "others" if i == proper[-1] else None}
                axes.plot(curves[i].shares, values, **style)
            axes.set_xscale("log")
            axes.set_xticks([0.01, 0.03, 0.1, 0.3, 1], ["1 %", "3 %", "10 %", "30 %", "100 %"])
            axes.minorticks_off()
            axes.set_xlabel("top")
            axes.set_title(words)
        handles, names = made.axes[0].get_legend_handles_labels()
        listed = sorted(zip(names, handles, strict=True), key=lambda n: _place(n[0], labels))
        made.legend([h for _, h in listed], [n for n, _ in listed], loc="outside right upper", handlelength=2.2)
    return result[0]


def _of_ablation(ablation: Ablation) -> Iterator[Drawing]:
    stem, sample = f"{_slug(ablation.title)}-{ablation.id}", ablation.sample
    labels = [sample.label(panel) for panel in sample.panels]
    grouped = [_seeds_of(panel, ablation.seeds) for panel in sample.panels]
    if any(len(panel.seeds) > 1 for panel in sample.panels):
        yield Drawing(
            f"{stem}-seeds",
            f"{ablation.name}: correlation of every proxy with every seed, their mean and standard deviation, and the "
            "95 % interval of the mean over networks.",
            by_proxy(labels, ablation.spreads, grouped, ablation.name),
        )
    for proxy in dict.fromkeys(row.first.proxy for row in ablation.differences):
        seeds = [seed for seed in ablation.seeds if seed.proxy == proxy]
        spreads = [spread for spread in ablation.spreads if spread.proxy == proxy]
        yield Drawing(
            f"{stem}-batch-{_slug(proxy)}",
            f"{ablation.name}: correlation of {proxy} over the batch size, one line per seed, their mean, and its 95 % "
            "interval over networks.",
            by_batch_size(spreads, seeds, f"{proxy}: {ablation.name}"),
        )


def _of_standing(standing: Standing) -> Iterator[Drawing]:
    board, sample = standing.board, standing.sample
    stem = f"{_slug(board.title)}-{board.id}"
    panels = {(panel.proxy, panel.batch_size): panel for panel in sample.panels}
    labels = [sample.label(panels[r.proxy, r.batch_size]) for r in standing.rankings]
    curves = [d.curve for d in standing.details]
    yield Drawing(
        f"{stem}-curves",
        f"{board.name}: the top of the ranking from {CUTS[0]:.0%} to all networks; the {COLOURED} highest Spearman in "
        "colour.",
        over_cut_off(labels, curves, board.name),
    )
    for family in dict.fromkeys(name for name, _ in standing.agreements):
        rows = [row for name, row in standing.agreements if name == family]
        known = {name for row in rows for name in (row.first, row.second)}
        place = {name: i for i, name in enumerate(label for label in labels if label in known)}
        matrix = np.full((len(place), len(place)), np.nan)
        for row in rows:
            a, b = place[row.first], place[row.second]
            matrix[a, b] = matrix[b, a] = row.rho
        at = f", batches of {family}" if family else ""
        yield Drawing(
            f"{stem}-agreement" + (f"-{family}" if family else ""),
            f"{board.name}{at}: Spearman between the scores of proxies, mean over seeds, in the direction that each "
            "claims; the order is that of the table.",
            heat_map(list(place), matrix, f"{board.name}{at}"),
        )


def _seeds_of(panel: Panel, seeds: Sequence[Seed]) -> list[Seed]:
    key = (panel.proxy, panel.version, panel.batch_size)
    return [seed for seed in seeds if (seed.proxy, seed.version, seed.batch_size) == key]


@contextmanager
def _figure(width: float, height: float, title: str) -> Iterator[tuple[Figure, list[str]]]:
    """Yield a figure and a list that gets its SVG."""
    result: list[str] = []
    with style():
        made = _empty(width, height)
        made.suptitle(title, fontsize=9, color="#5b6675")
        yield made, result
        result.append(as_svg(made, title))


def _empty(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _legend(figure: Figure) -> None:
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), handlelength=1.6)


def _place(name: str, labels: Sequence[str]) -> int:
    return labels.index(name) if name in labels else len(labels)


def _short(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00").replace("0.", ".", 1)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.") or "board"
