"""The board of NAS-Bench-201 and CIFAR-10 beside published coefficients, with a reason for each that differs.

    python -m zcbench.tools.published docs/board nb201_zero_cost.csv > docs/published.md

The second file is the one of `tools/agreement.py`: NASLib's own scores, network by network. So for thirteen proxies the
reason is measured, because NASLib's scores of the very networks of the board are ranked too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..bench.report.published import Published, every
from ..bench.results.published.sources import Source, read_leaderboard
from ..bench.stats.coefficients import kendall, spearman
from ..errors import ZcbenchError
from .agreement import NASLIB

#: Reasons that no per-network scores of others show.
REASONS = {
    "gradsign": "This is the mean over weights, from the authors' script for zero-cost-nas. The published value is "
    "near that of `gradsign.sum`, the sum over weights of their other script.",
}

_INTRO = """# The board and published coefficients

The [board](board/leaderboard.md) of NAS-Bench-201 with CIFAR-10 has {networks} networks and one batch of 16 images.
Published coefficients are over thousands of networks. `bench/report/published.json` holds them with their sources.

{count} proxies of the board have a published coefficient. {outside} of these lie outside our 95 % interval.

How is a difference explained? The file `nb201_zero_cost.csv` holds NASLib's own scores of 9,445 networks, at 64
images. It leaves out networks with an operation that does not reach the output. {common} networks of the board are
in that file. On exactly these networks (*here*) we rank NASLib's scores and ours. What is left between these two
coefficients comes from images, seeds and definitions. The rest of a difference comes from which networks are
ranked. *Agreement* is Spearman's ρ between NASLib's scores and ours. Where it is low, the score depends on the seed
or the images more than on the network, and equal coefficients may be chance.
"""

_COMMAND = """\
    python -m zcbench.tools.published docs/board $ZCBENCH_DATA/tables/nb201/nb201_zero_cost.csv > docs/published.md"""


class Line(NamedTuple):
    """One proxy: coefficients of the board, of others, and of both on the same networks; NaN where there is none.

    `networks` are those of the others, and `scored` those of the board that the proxy was asked to score.
    """

    proxy: str
    kind: str
    ours: float
    low: float
    high: float
    published: float
    networks: int
    theirs_here: float
    ours_here: float
    agreement: float
    common: int
    source: str
    scored: int

    @property
    def inside(self) -> bool:
        """Whether the published coefficient lies in the interval of the board."""
        return self.low <= self.published <= self.high

    @property
    def reason(self) -> str:
        """Say why the published coefficient lies where it does.

        Raises:
            KeyError: It lies outside, and there is no reason.
        """
        if self.inside:
            return "within our interval"
        if self.proxy in REASONS:
            return REASONS[self.proxy]
        if np.isnan(self.theirs_here):
            raise KeyError(self.proxy)
        return (
            f"NASLib ranks no network with an unreachable operation. On the {self.common} of the board without one its "
            f"scores give {_number(self.theirs_here)}, ours {_number(self.ours_here)}."
        )


def lines(board: Source, table: pd.DataFrame, stored: pd.DataFrame) -> Iterator[Line]:
    """Yield a line for every proxy of a board that others have published a coefficient of.

    Args:
        board: Board and its rows.
        table: `leaderboard.csv`.
        stored: Table of NASLib.
    """
    recipe, rows = board[0].recipe, board[1]
    truth = pd.Series(dict(zip(recipe.architectures, recipe.values, strict=True)), name="accuracy")
    known = {p.proxy: p for p in every() if (p.space, p.task) == (recipe.space, recipe.dataset)}
    for row in table[table["id"] == board[0].id].to_dict("records"):
        proxy = str(row["proxy"])
        if not (of := known.get(proxy)):
            continue
        kind, value = ("tau", of.tau) if of.tau is not None else ("rho", of.rho)
        if value is None:
            continue
        own = rows[rows["proxy"] == proxy].set_index("architecture")["value"]
        theirs, here, agreement, common = _both(own, truth, stored, proxy, of)
        yield Line(
            proxy,
            kind,
            row[kind],
            row[f"{kind}_low"],
            row[f"{kind}_high"],
            value,
            of.networks,
            theirs,
            here,
            agreement,
            common,
            of.source,
            row["networks"],
        )


def _both(
    own: pd.Series[float], truth: pd.Series[float], stored: pd.DataFrame, proxy: str, of: Published
) -> tuple[float, float, float, int]:
    """Return tau of NASLib's scores and of ours on the networks that both have, rho between them, and their number."""
    if proxy not in NASLIB or not of.source.startswith("NASLib"):
        return np.nan, np.nan, np.nan, 0
    column = stored.set_index("arch_str")[f"cifar10_{NASLIB[proxy]}"].rename("stored")
    both = pd.concat([own.rename("own"), truth, column], axis=1, join="inner")
    both = both[np.isfinite(both.to_numpy()).all(axis=1) & both["stored"].ne(-1e8).to_numpy()]
    scores, stored_scores, accuracy = (both[name].to_numpy() for name in ("own", "stored", "accuracy"))
    return (
        kendall(stored_scores, accuracy),
        kendall(scores, accuracy),
        spearman(scores, stored_scores),
        len(both),
    )


def page(found: list[Line], networks: int) -> str:
    """Return the page as Markdown."""
    body = [
        f"| `{x.proxy}` | {'τ' if x.kind == 'tau' else 'ρ'} | {_number(x.ours)} [{_number(x.low)} {_number(x.high)}] "
        f"| {_number(x.published)} | {_number(x.theirs_here)} | {_number(x.ours_here)} | {_number(x.agreement)} "
        f"| {x.reason}{f', on {x.scored} networks' if x.scored < networks else ''} |"
        for x in found
    ]
    outside = sum(not x.inside for x in found)
    sources = sorted({f"{x.source} ({x.networks:,} networks)" for x in found})
    return "\n".join(
        [
            _INTRO.format(networks=networks, count=len(found), outside=outside, common=max(x.common for x in found)),
            "| proxy | | the board [95 %] | published | NASLib's here | ours here | agreement | why |",
            "| --- | --- | --- | --: | --: | --: | --: | --- |",
            *body,
            "",
            "Sources: " + "; ".join(sources) + ".",
            "",
            "This page is made by one command:",
            "",
            _COMMAND,
            "",
        ]
    )


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}".replace("0.", ".")


def main(folder: Path, file: Path) -> str:
    """Return the page of a leaderboard.

    Raises:
        StopIteration: The leaderboard has no board of nb201 on cifar10.
    """
    board = next(
        s for s in read_leaderboard(folder) if (s[0].recipe.space, s[0].recipe.dataset) == ("nb201", "cifar10")
    )
    table = pd.read_csv(folder / "leaderboard.csv", dtype={"seeds": str})
    return page(list(lines(board, table, pd.read_csv(file))), len(board[0].recipe.accuracies))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("expected LEADERBOARD nb201_zero_cost.csv")
    try:
        sys.stdout.write(main(Path(sys.argv[1]), Path(sys.argv[2])))
    except (ZcbenchError, OSError) as error:
        sys.exit(str(error))
