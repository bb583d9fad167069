"""LIBRA's choice of three proxies, made on one half of a board and tested on the other half.

    python -m zcbench.tools.libra docs/board > docs/libra.md

The choice is algorithm 1 of Casarin et al., L-SWAG, CVPR 2025. It reads accuracies, so it is fitted, and it is tested
on classes of networks that it has not seen. The paper does not say how the three are put together, and its supplement
could not be had. Here the logarithms of their ranks are added, as AZ-NAS does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..bench.results.published.sources import Source, read_leaderboard
from ..bench.stats.coefficients import kendall, spearman
from ..errors import ZcbenchError
from ..progress import Progress
from ..proxies import AGGREGATES, PROXIES
from ..proxies.aggregate import Vector, log_ranks

#: How far below the best rho a proxy may be to be chosen, as in the paper.
WITHIN = 0.1
#: Share of networks that a proxy must have finite scores of.
MOST = 0.9
#: Bins of equal count for the entropies. The paper does not say how many.
BINS = 4
SPLITS, FEWEST = 20, 40

_INTRO = f"""# LIBRA's choice of three proxies

LIBRA (Casarin et al., *L-SWAG*, CVPR 2025, algorithm 1) chooses three proxies for a benchmark. The first has the
highest Spearman's ρ with the accuracies. The second and the third are chosen among those with a ρ at most
{WITHIN:.1f} lower. The second gives the least *information gain*: it says least about the accuracy that the first
does not say already. (The authors compared this with the greatest gain and found it better.) The third has a *bias*
nearest to that of the accuracies, where the bias is the correlation of ranks with the number of parameters.

A proxy takes part if it has finite scores of more than nine tenths of a board's networks, and a network if all of
these proxies have a score of it.

The choice reads accuracies. So each board is split in two by classes of networks, {SPLITS} times. The choice is
made on one half, and τ (Kendall's tau) is measured on the other. Beside it stand the single proxy that is best on
the same first half, and AZ-NAS, which is not fitted and is left out where a member of it has too few scores. Each τ
is the mean over splits; the gain is over the best single one, with the least and the greatest over the splits. The
splits overlap, so this range is no confidence interval.

The paper leaves two things open. It does not say how the three are put together: here the logarithms of ranks are
added, as AZ-NAS does. It does not say how entropies are estimated: here from {BINS} bins with equally many
networks.
"""


class Choice(NamedTuple):
    """Three proxies in the order in which LIBRA chooses them."""

    best: str
    least_gain: str
    nearest_bias: str


def choose(scores: Mapping[str, Vector], truth: Vector, params: Vector) -> Choice:
    """Return LIBRA's three proxies.

    Args:
        scores: Scores `(m,)` of every proxy, higher is better and all finite.
        truth: Accuracies `(m,)`.
        params: Numbers of parameters `(m,)`, which the bias is measured against.

    Raises:
        ValueError: There are fewer than three proxies.
    """
    if len(scores) < 3:
        raise ValueError(f"expected three proxies or more, got {len(scores)}")
    rho = {name: spearman(values, truth) for name, values in scores.items()}
    ordered = sorted(scores, key=lambda name: (-np.nan_to_num(rho[name], nan=-2), name))
    best, *rest = ordered
    near = [name for name in rest if rho[name] > rho[best] - WITHIN]
    # With fewer than two of them, the next best ones are taken, on which the paper is silent.
    near += [name for name in rest if name not in near][: max(0, 2 - len(near))]
    second = min(near, key=lambda name: gain(truth, scores[best], scores[name]))
    bias = spearman(truth, params)
    third = min((n for n in near if n != second), key=lambda name: abs(bias - spearman(scores[name], params)))
    return Choice(best, second, third)


def gain(truth: Vector, known: Vector, added: Vector) -> float:
    r"""Return the information gain $H(y \mid z_1) - H(y \mid z_1, z_2)$ in nats, from bins of equal count."""
    y, first, second = (_bins(values) for values in (truth, known, added))
    return _conditional(y, first) - _conditional(y, first * BINS + second)


def _bins(values: Vector) -> NDArray[np.int64]:
    """Return the bin of every value; equal values share one."""
    ranks = pd.Series(values).rank(method="min").to_numpy() - 1
    bins: NDArray[np.int64] = (ranks * BINS / len(values)).astype(np.int64)
    return bins


def _conditional(y: NDArray[np.int64], given: NDArray[np.int64]) -> float:
    total = 0.0
    for value in np.unique(given):
        counts = np.bincount(y[given == value])
        shares = counts[counts > 0] / counts.sum()
        total -= counts.sum() / len(y) * float((shares * np.log(shares)).sum())
    return total


class Result(NamedTuple):
    """One split: what was chosen, and tau of it, of the best single proxy and of AZ-NAS on the other half."""

    networks: int
    choice: Choice
    libra: float
    single: float
    az_nas: float


def split(source: Source, seed: int) -> Result:
    """Choose on one half of the classes of a board, and test on the other half."""
    board, rows = source
    recipe = board.recipe
    wide = rows.pivot_table(index="architecture", columns="proxy", values="value", aggfunc="mean", dropna=False)
    wide = wide.reindex(recipe.architectures)
    # Proxies that most networks have a score of, and the networks that have all of these.
    names = [n for n in wide.columns if n in PROXIES and np.isfinite(wide[n]).mean() > MOST and wide[n].nunique() > 1]
    whole = np.isfinite(wide[names].to_numpy()).all(axis=1)
    wide, truth = wide[whole], np.array(recipe.values)[whole]
    classes = np.array(recipe.classes or range(len(whole)))[whole]
    scores = {n: wide[n].to_numpy() * (-1 if PROXIES[n].direction == "lower" else 1) for n in names}
    known = np.unique(classes)
    first = np.isin(classes, np.random.RandomState(seed).permutation(known)[: len(known) // 2])
    params = wide["params"].to_numpy()
    choice = choose({n: v[first] for n, v in scores.items()}, truth[first], params[first])
    members = AGGREGATES["az_nas"].members
    return Result(
        len(truth),
        choice,
        kendall(log_ranks([scores[n][~first] for n in choice]), truth[~first]),
        kendall(scores[choice.best][~first], truth[~first]),
        kendall(log_ranks([scores[n][~first] for n in members]), truth[~first]) if {*members} <= {*scores} else np.nan,
    )


def page(sources: Sequence[Source]) -> str:
    """Return the page as Markdown."""
    lines = [
        "| board | networks | LIBRA τ | best single τ | AZ-NAS τ | gain [least, greatest] | chosen most often |",
        "| --- | --: | --: | --: | --: | --- | --- |",
    ]
    known = [source for source in sources if len(source[0].recipe.accuracies) >= FEWEST]
    progress = Progress("boards split", len(known))
    for source in known:
        found = [split(source, seed) for seed in range(SPLITS)]
        progress.advance(1)
        means = np.mean([[r.libra, r.single, r.az_nas] for r in found], axis=0)
        gains = np.array([r.libra - r.single for r in found])
        often = pd.Series([" + ".join(f"`{n}`" for n in r.choice) for r in found]).value_counts()
        most = sorted(often[often == often.max()].index)[0]
        libra, single, az_nas = (f"{mean:.3f}".replace("nan", "") for mean in means)
        lines.append(
            f"| {source[0].recipe.space}, {source[0].recipe.dataset} | {found[0].networks} | {libra} | {single} | "
            f"{az_nas} | {gains.mean():+.3f} [{gains.min():+.3f} {gains.max():+.3f}] | "
            f"{most} ({often.max()} of {SPLITS}) |"
        )
    progress.close()
    command = "    python -m zcbench.tools.libra docs/board > docs/libra.md"
    return "\n".join([_INTRO, *lines, "", "This page is made by one command:", "", command, ""])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("expected LEADERBOARD")
    try:
        sys.stdout.write(page(read_leaderboard(Path(sys.argv[1]))))
    except ZcbenchError as error:
        sys.exit(str(error))
