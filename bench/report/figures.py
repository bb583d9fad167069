"""Figures of a leaderboard as SVG; equal numbers give equal bytes. They need matplotlib, an optional dependency."""

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
from ..results.overview import Leaderboard
from ..results.panel import Panel
from ..results.ranking import CUTS
from ..results.standing import BASELINES, Standing
from ..stats.ranks import Matrix
from ..stats.top import Tops
from .numbers import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Number of proxies whose line has a colour, where every proxy has a line.
COLOURED = 10
#: Largest number of rows of a heat map whose cells have room for a number.
NUMBERED = 32
#: Most proxies of a heat map that is drawn; the page has one of any size, in which one can point at a cell.
DRAWN = 40

_INK, _BLUE, _PALE, _GREY = "#1c2430", "#2b6cb0", "#bcd3ea", "#9aa5b4"
#: What stands for a colour in a page, which may be light or dark.
_IN_PAGE = {
    "fill: #ffffff": "fill: none",
    _INK: "var(--ink)",
    _BLUE: "rgb(var(--pos))",
    _PALE: "var(--pale)",
    _GREY: "var(--grey)",
    "#5b6675": "var(--soft)",
    "#e3e7ee": "var(--rule)",
}
_WORDS = {"rho": "Spearman ρ", "tau": "Kendall τ"}
#: How a row of `by_proxy` is drawn, from the bottom layer to the top layer.
_MARKS: dict[str, dict[str, Any]] = {
    "95 % over networks": {"color": _PALE, "lw": 7, "solid_capstyle": "butt"},
    "± standard deviation over seeds": {"color": _BLUE, "lw": 2.2, "solid_capstyle": "butt"},
    "each seed": {"color": _INK, "ls": "", "marker": "|", "ms": 6, "mew": 0.7},
    "mean": {"color": _INK, "ls": "", "marker": "o", "ms": 3.2},
}
_TITLE = "zcbench leaderboard"
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
        name: Name of its file, without the ending.
        caption: What it shows, in one or two sentences.
        svg: Content of its file.
        in_page: Whether the page shows it; what the page draws itself is a file alone.
    """

    name: str
    caption: str
    svg: str
    in_page: bool = True


def available() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


@contextmanager
def style() -> Iterator[None]:
    """Draw in our style: the user's own style would change the bytes.

    Raises:
        ResultsError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ResultsError(
            'figures: expected matplotlib, which is not installed: pip install "zcbench[report]"'
        ) from None
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def figure(rows: int, columns: int, *, width: float, height: float, title: str = "", **axes: Any) -> tuple[Figure, Any]:
    """Return an empty figure, in inches, and its axes as `Figure.subplots` returns them; draw on them in `style`.

    Raises:
        ResultsError: matplotlib is not installed.
    """
    with style():
        from matplotlib.figure import Figure

        made = Figure(figsize=(width, height), layout="constrained")
        if title:
            made.suptitle(title, fontsize=9, color="#5b6675")
        return made, made.subplots(rows, columns, **axes)


def as_svg(made: Figure, title: str = "") -> str:
    """Return a figure as SVG; a figure with a title is one that `is_ours` knows.

    A figure that is made again gives the same bytes. A second call for one figure may not: its layout may move.
    """
    stream = io.StringIO()
    heading = {"Title": f"{_TITLE}: {title}"} if title else {}
    with style():
        made.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, **heading})
    return stream.getvalue()


def save(made: Figure, path: Path) -> None:
    """Write a figure as an SVG file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, as_svg(made).encode())


def is_ours(svg: str) -> bool:
    """Return whether `draw` has drawn this SVG."""
    return f"<dc:title>{_TITLE}" in svg


def inline(svg: str) -> str:
    """Return a drawing that can stand in an HTML page: in the colours of the page, without addresses and shared ids."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    for colour, name in _IN_PAGE.items():
        body = body.replace(colour, name)
    body = re.sub(r' xmlns(:\w+)?="[^"]*"', "", body).replace("xlink:href=", "href=")
    return re.sub(r' id="[A-Za-z][\w.]*_\d+"', "", body)


def draw(made: Leaderboard) -> dict[str, list[Drawing]]:
    """Draw all figures of a leaderboard and return them by the id of board or ablation.

    Raises:
        ResultsError: matplotlib is not installed.
    """
    drawings = {ablation.id: list(_of_ablation(ablation)) for ablation in made.ablations}
    for standing in made.standings:
        drawings[standing.board.id] = [*drawings.get(standing.board.id, []), *_of_standing(standing)]
    return drawings


def by_batch_size(spreads: Sequence[Spread], seeds: Sequence[Seed], title: str) -> str:
    """Draw the coefficients of one proxy over the batch size: one line per seed, their mean, and its interval."""
    rows = sorted((s for s in spreads if s.batch_size > 0), key=lambda s: s.batch_size)
    sizes = [row.batch_size for row in rows]
    with style():
        made, both = figure(1, 2, width=7.2, height=3.1, title=title)
        for axes, (name, words) in zip(both, _WORDS.items(), strict=True):
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
        return as_svg(made, title)


def by_proxy(labels: Sequence[str], spreads: Sequence[Spread], seeds: Sequence[Sequence[Seed]], title: str) -> str:
    """Draw the coefficients of all proxies, the highest Spearman on top: every seed, mean, deviation and interval.

    Args:
        labels: Names of the rows.
        spreads: Spread of every row.
        seeds: Coefficients of every row, one per seed.
        title: Text above the figure.
    """
    order = sorted(range(len(labels)), key=lambda i: (np.nan_to_num(spreads[i].rho, nan=-2), labels[i]))
    with style():
        made, both = figure(1, 2, width=8.4, height=1.3 + 0.21 * len(labels), title=title, sharey=True)
        for axes, (name, words) in zip(both, _WORDS.items(), strict=True):
            for height, i in enumerate(order):
                row = spreads[i]
                mean, low, high, sd = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high", "_sd"))
                values = [low, high], [mean - sd, mean + sd], [getattr(seed, name) for seed in seeds[i]], [mean]
                for xs, (label, look) in zip(values, _MARKS.items(), strict=True):
                    axes.plot(xs, [height] * len(xs), label=None if height else label, **look)
            axes.axvline(0, color=_GREY, lw=0.8)
            axes.set_title(words)
            axes.set_yticks(range(len(order)), [labels[i] for i in order])
            axes.set_ylim(-0.7, len(order) - 0.3)
            axes.tick_params(axis="y", length=0)
        _legend(made)
        return as_svg(made, title)


def intervals(
    labels: Sequence[str], values: Sequence[float], lows: Sequence[float], highs: Sequence[float], title: str
) -> str:
    """Draw numbers as bars, the first on top, each with its interval; what is NaN is left out.

    Args:
        labels: Names of the bars.
        values: Numbers of the bars.
        lows: Lower ends of the intervals.
        highs: Upper ends of the intervals.
        title: Text above the figure.
    """
    with style():
        made, axes = figure(1, 1, width=5.6, height=1.1 + 0.21 * len(labels), title=title)
        heights = range(len(labels))
        axes.barh(heights, values, color=_PALE, height=0.7)
        axes.hlines(heights, lows, highs, color=_BLUE, lw=1.6)
        axes.axvline(0, color=_GREY, lw=0.8)
        axes.set_yticks(heights, labels)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        return as_svg(made, title)


def heat_map(labels: Sequence[str], matrix: Matrix, title: str) -> str:
    """Draw how alike proxies rank: the lower triangle of a symmetric matrix from -1 to 1, grey where it is NaN."""
    import matplotlib as mpl

    count = len(labels)
    side = 1.9 + 0.25 * count
    with style():
        made, axes = figure(1, 1, width=side + 0.8, height=side, title=title)
        colours = mpl.colormaps["RdBu"]
        lower = np.tril(np.ones((count, count), dtype=bool), -1)
        # One rectangle per cell: matplotlib would draw an image as a bitmap.
        for row, column in zip(*np.nonzero(lower), strict=True):
            value = float(matrix[row, column])
            fill = "#e3e7ee" if math.isnan(value) else mpl.colors.to_hex(colours((value + 1) / 2))
            axes.add_patch(mpl.patches.Rectangle((column - 0.5, row - 0.5), 1, 1, fc=fill, ec="white", lw=0.5))
            if count <= NUMBERED and not math.isnan(value):
                ink = "white" if abs(value) > 0.65 else _INK
                shown = number(round(value, 2) + 0.0, 2)  # a value that is rounded to zero has no sign
                axes.text(column, row, shown, ha="center", va="center", fontsize=5.8, color=ink)
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
        return as_svg(made, title)


def over_cut_off(labels: Sequence[str], curves: Sequence[Tops], title: str) -> str:
    """Draw the top of the ranking over the cut-off; the first `COLOURED` proxies that are no baseline have a colour.

    Args:
        labels: Names of the proxies, the best first.
        curves: Curve of every proxy.
        title: Text above the figure.
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
    with style():
        made, three = figure(1, 3, width=10.5, height=3.6, title=title)
        for axes, (name, words) in zip(three, panels, strict=True):
            # Coloured lines are drawn last, so that they lie on top.
            for i in sorted(range(len(labels)), key=lambda i: (i in colours, -i)):
                label, values = labels[i], getattr(curves[i], name)
                if label in BASELINES:
                    look: dict[str, Any] = {"color": _INK, "ls": dashes[label], "lw": 1.0, "label": label}
                elif i in colours:
                    look = {"color": colours[i], "lw": 1.4, "label": label}
                else:
                    look = {"color": _GREY, "lw": 0.5, "label": "others" if i == proper[-1] else None}
                axes.plot(curves[i].shares, values, **look)
            axes.set_xscale("log")
            axes.set_xticks([0.01, 0.03, 0.1, 0.3, 1], ["1 %", "3 %", "10 %", "30 %", "100 %"])
            axes.minorticks_off()
            axes.set_xlabel("top")
            axes.set_title(words)
        handles, names = made.axes[0].get_legend_handles_labels()
        place = {label: i for i, label in enumerate(labels)}
        listed = sorted(zip(names, handles, strict=True), key=lambda pair: place.get(pair[0], len(labels)))
        made.legend([h for _, h in listed], [n for n, _ in listed], loc="outside right upper", handlelength=2.2)
        return as_svg(made, title)


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
        f"{board.name}: the top of the ranking from {CUTS[0]:.0%} to all networks; the {COLOURED} proxies with the "
        "highest Spearman have a colour.",
        over_cut_off(labels, curves, board.name),
        in_page=False,
    )
    for family in dict.fromkeys(name for name, _ in standing.agreements):
        rows = [row for name, row in standing.agreements if name == family]
        known = {name for row in rows for name in (row.first, row.second)}
        if len(known) > DRAWN:
            continue
        place = {name: i for i, name in enumerate(label for label in labels if label in known)}
        matrix = np.full((len(place), len(place)), np.nan)
        for row in rows:
            a, b = place[row.first], place[row.second]
            matrix[a, b] = matrix[b, a] = row.rho
        at = f", batches of {family}" if family else ""
        yield Drawing(
            f"{stem}-agreement" + (f"-{family}" if family else ""),
            f"{board.name}{at}: Spearman between the scores of every two proxies, mean over seeds, in the direction "
            "that each proxy claims; proxies are in the order of the table.",
            heat_map(list(place), matrix, f"{board.name}{at}"),
            in_page=False,
        )


def _seeds_of(panel: Panel, seeds: Sequence[Seed]) -> list[Seed]:
    key = (panel.proxy, panel.version, panel.batch_size)
    return [seed for seed in seeds if (seed.proxy, seed.version, seed.batch_size) == key]


def _legend(figure: Figure) -> None:
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), handlelength=1.6)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.") or "board"
