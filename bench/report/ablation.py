"""What seeds and batch sizes do to proxies, as a Markdown document with figures beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..results.ablation import Ablation
from .figures import Drawing
from .numbers import estimate, interval, number, percent, significant
from .table import markdown, plain

_INTRODUCTION = """# Ablations

`zcbench leaderboard` made this document. All digits are in `ablation.csv`, `seeds.csv` and `trends.csv`, and six digits
in `differences.csv` and `agreement.csv`. `zcbench leaderboard --verify` makes these tables again from `scores.parquet`.

ρ is Spearman's rho and τ is Kendall's tau-b, both signed and averaged over seeds. [Brackets] are 95 % intervals. The
interval of a mean is a bootstrap over classes of networks: networks that are one function are drawn together, with all
their seeds. The interval of a standard deviation (sd) is the chi-square interval of independent normal seeds.
*Agreement* is the mean τ between the scores that two seeds give to the same networks.
"""
_SPREADS = """\
| proxy | batch | seeds | networks | cover | ρ | sd | τ | sd | τ from, to | agreement |
| --- | --: | --: | --: | --: | --- | --- | --- | --- | --- | --: |
"""
_TRENDS = """\
Growth of the coefficient with every doubling of the batch size, in the direction that the proxy claims:

| proxy | batches | seed | ρ, networks | ρ, seeds | rising | τ, networks | τ, seeds | rising |
| --- | --- | --- | --- | --- | --: | --- | --- | --: |
"""
_DIFFERENCES = """\
Differences between two batch sizes, on networks scored at both; p is after Holm's correction over the pairs of a proxy:

| proxy | batch | minus batch | networks | Δρ | p | Δτ | p |
| --- | --: | --: | --: | --- | --: | --- | --: |
"""
_AGREEMENTS = """\
Agreement between the scores at two batch sizes with the same seed, mean over seeds:

| proxy | batch | batch | networks | ρ | τ |
| --- | --: | --: | --: | --: | --: |
"""


def as_markdown(ablations: Sequence[Ablation], drawings: Mapping[str, Sequence[Drawing]], folder: str) -> str:
    """Write the tables and figures of all ablations.

    Args:
        ablations: The ablations, in the order of the page.
        drawings: Figures by the id of the ablation; figures that show no seeds and no batch sizes are left out.
        folder: Path from the document to the folder of the figures.
    """
    blocks = [_INTRODUCTION]
    for ablation in ablations:
        blocks += [
            f"## {plain(ablation.title)}: {plain(ablation.name)}\n",
            markdown(_SPREADS, _spreads(ablation)),
            *(
                f"![{plain(drawing.caption)}]({folder}/{drawing.name}.svg)\n"
                for drawing in drawings.get(ablation.id, ())
                if "-batch-" in drawing.name or drawing.name.endswith("-seeds")
            ),
        ]
        for head, rows in (
            (_TRENDS, _trends(ablation)),
            (_DIFFERENCES, _differences(ablation)),
            (_AGREEMENTS, _agreements(ablation)),
        ):
            if found := list(rows):
                blocks.append(markdown(head, found))
    return "\n".join(blocks)


def _spreads(ablation: Ablation) -> Iterator[Sequence[object]]:
    several = any(spread.seeds > 1 for spread in ablation.spreads)
    for s in sorted(ablation.spreads, key=lambda s: (-s.rho if not math.isnan(s.rho) else 2, s.proxy, s.batch_size)):
        yield (
            s.proxy,
            s.batch_size or "",
            s.seeds,
            s.networks,
            percent(s.coverage),
            estimate(s.rho, s.rho_low, s.rho_high),
            estimate(s.rho_sd, s.rho_sd_low, s.rho_sd_high, 3),
            estimate(s.tau, s.tau_low, s.tau_high),
            estimate(s.tau_sd, s.tau_sd_low, s.tau_sd_high, 3),
            f"{number(s.tau_min)}, {number(s.tau_max)}" if several else "",
            number(s.seed_tau),
        )


def _trends(ablation: Ablation) -> Iterator[Sequence[object]]:
    for t in ablation.trends:
        mean = t.seed is None
        yield (
            t.proxy,
            " ".join(map(str, t.batch_sizes)),
            "**mean**" if mean else t.seed,
            estimate(t.rho, t.rho_low, t.rho_high, 3),
            interval(t.rho_seed_low, t.rho_seed_high, 3),
            t.rho_rising if mean else "",
            estimate(t.tau, t.tau_low, t.tau_high, 3),
            interval(t.tau_seed_low, t.tau_seed_high, 3),
            t.tau_rising if mean else "",
        )


def _differences(ablation: Ablation) -> Iterator[Sequence[object]]:
    """Yield the differences: coefficient of the larger batch size minus that of the smaller one."""
    for d in ablation.differences:
        yield (
            d.first.proxy,
            d.second.batch_size,
            d.first.batch_size,
            d.n,
            estimate(-d.rho.difference, -d.rho.high, -d.rho.low, 3),
            _p(d.rho.p_holm),
            estimate(-d.tau.difference, -d.tau.high, -d.tau.low, 3),
            _p(d.tau.p_holm),
        )


def _agreements(ablation: Ablation) -> Iterator[Sequence[object]]:
    for row in ablation.agreements:
        if row.kind == "batch sizes":
            yield row.proxy, row.first, row.second, row.n, number(row.rho), number(row.tau)


def _p(value: float) -> str:
    return "< 1e-4" if value < 1e-4 else significant(value, 2)
