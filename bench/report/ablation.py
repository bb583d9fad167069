"""What seeds and batch sizes do, as Markdown with figures beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..results.ablation import Ablation
from .figures import Drawing

_HEAD = """# Ablations

Made by `zcbench leaderboard`; all digits are in `ablation.csv`, `seeds.csv`, `trends.csv`, `differences.csv` and
`agreement.csv`, and `zcbench leaderboard --verify` makes them anew from `scores.parquet`.

ρ is Spearman's and τ Kendall's tau-b, signed, the mean over seeds. [Brackets] are 95 % intervals: of a mean, a
bootstrap over networks, all seeds of a network being one cluster; of a standard deviation (sd), the chi-square interval
of independent normal seeds. *Agreement* is the mean τ between the scores that two seeds give the same networks.
"""


def as_markdown(ablations: Sequence[Ablation], drawings: Mapping[str, Sequence[Drawing]], folder: str) -> str:
    """Write tables and figures of every ablation.

    Args:
        ablations: In the order of the page.
        drawings: By the id of the ablation; those of boards alone are left out.
        folder: Where the figures lie, as seen from the page.
    """
    return "\n".join([_HEAD, *(line for a in ablations for line in _section(a, drawings.get(a.id, ()), folder))]) + "\n"


def _section(ablation: Ablation, drawings: Sequence[Drawing], folder: str) -> Iterator[str]:
    yield f"## {_plain(ablation.title)}: {_plain(ablation.name)}\n"
    several = any(spread.seeds > 1 for spread in ablation.spreads)
    yield "| proxy | batch | seeds | networks | cover | ρ | sd | τ | sd | τ from, to | agreement |"
    yield "| --- | --: | --: | --: | --: | --- | --- | --- | --- | --- | --: |"
    for s in sorted(ablation.spreads, key=lambda s: (-s.rho if not math.isnan(s.rho) else 2, s.proxy, s.batch_size)):
        yield _row(
            _plain(s.proxy),
            str(s.batch_size or ""),
            str(s.seeds),
            str(s.networks),
            f"{100 * s.coverage:.1f}%",
            _interval(s.rho, s.rho_low, s.rho_high, 2),
            _interval(s.rho_sd, s.rho_sd_low, s.rho_sd_high, 3),
            _interval(s.tau, s.tau_low, s.tau_high, 2),
            _interval(s.tau_sd, s.tau_sd_low, s.tau_sd_high, 3),
            f"{_number(s.tau_min)}, {_number(s.tau_max)}" if several else "",
            _number(s.seed_tau),
        )
    yield ""
    for drawing in drawings:
        if "-batch-" in drawing.name or drawing.name.endswith("-seeds"):
            yield f"![{_plain(drawing.caption)}]({folder}/{drawing.name}.svg)\n"
    if ablation.trends:
        yield "Growth of a coefficient with every doubling of the batch, in the direction that the proxy claims:\n"
        yield "| proxy | batches | seed | ρ, networks | ρ, seeds | rising | τ, networks | τ, seeds | rising |"
        yield "| --- | --- | --- | --- | --- | --: | --- | --- | --: |"
        for t in ablation.trends:
            mean = t.seed is None
            yield _row(
                _plain(t.proxy),
                " ".join(map(str, t.batch_sizes)),
                "**mean**" if mean else str(t.seed),
                _interval(t.rho, t.rho_low, t.rho_high, 3),
                f"[{_number(t.rho_seed_low)} {_number(t.rho_seed_high)}]" if mean else "",
                str(t.rho_rising) if mean else "",
                _interval(t.tau, t.tau_low, t.tau_high, 3),
                f"[{_number(t.tau_seed_low)} {_number(t.tau_seed_high)}]" if mean else "",
                str(t.tau_rising) if mean else "",
            )
        yield ""
    if ablation.differences:
        yield "Differences between batch sizes on networks scored at both; p after Holm over the pairs of a proxy:\n"
        yield "| proxy | batch | less batch | networks | Δρ | p | Δτ | p |"
        yield "| --- | --: | --: | --: | --- | --: | --- | --: |"
        for d in ablation.differences:
            yield _row(
                _plain(d.first.proxy),
                str(d.second.batch_size),
                str(d.first.batch_size),
                str(d.n),
                _interval(-d.rho.difference, -d.rho.high, -d.rho.low, 3),
                _p(d.rho.p_holm),
                _interval(-d.tau.difference, -d.tau.high, -d.tau.low, 3),
                _p(d.tau.p_holm),
            )
        yield ""
    batches = [row for row in ablation.agreements if row.kind == "batch sizes"]
    if batches:
        yield "Agreement of the scores at two batch sizes with the same seed, mean over seeds:\n"
        yield "| proxy | batch | batch | networks | ρ | τ |\n| --- | --: | --: | --: | --: | --: |"
        for row in batches:
            yield _row(_plain(row.proxy), row.first, row.second, str(row.n), _number(row.rho), _number(row.tau))
        yield ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _number(value: float, digits: int = 3) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}".replace("0.", ".", 1)


def _interval(value: float, low: float, high: float, digits: int) -> str:
    if math.isnan(value):
        return ""
    return _number(value) + ("" if math.isnan(low) else f" [{_number(low, digits)} {_number(high, digits)}]")


def _p(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2g}" if value >= 1e-4 else "< 1e-4"
