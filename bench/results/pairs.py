"""Pairs of panels: how their coefficients differ, how alike they rank, and what they choose on another data set."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stats.agreement import every_two
from ..stats.coefficients import mean_over_seeds, over_seeds, rho_and_tau
from ..stats.ranks import Matrix, Vector
from ..stats.significance import Difference, differences
from ..stats.top import FEWEST, choose
from .board import Board
from .panel import Measured, Panel, Sample, common_seeds, in_threads, measure
from .ranking import CHOSEN


@dataclass(frozen=True)
class Comparison:
    """By how much one panel ranks better than another panel, on the networks and seeds that both scored.

    Coefficients are positive where a proxy ranks as it claims, so a positive difference means that the first is better.
    With fewer than `FEWEST` networks, they are NaN.

    Attributes:
        n: Number of networks that both scored with a common seed.
        rho: Spearman of both panels on these networks, mean over seeds, and their difference.
        tau: Kendall's tau-b of both panels on these networks, mean over seeds, and their difference.
    """

    first: Panel
    second: Panel
    n: int
    rho: Difference
    tau: Difference

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        record: dict[str, Any] = {
            "first": self.first.proxy,
            "first_batch_size": self.first.batch_size,
            "second": self.second.proxy,
            "second_batch_size": self.second.batch_size,
            "n": self.n,
        }
        for name in ("rho", "tau"):
            record |= {f"{name}_{key}": value for key, value in vars(getattr(self, name)).items()}
        return record


def compare(
    found: Sequence[Measured], truth: Vector, weights: Matrix, *, asked: Iterable[tuple[int, int]] | None = None
) -> list[Comparison]:
    """Compare pairs of panels on the same resamples; Holm's correction is over all of these pairs.

    Args:
        found: Measured panels of one sample.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`, the resamples that the panels were measured with.
        asked: Places of the two panels of each pair; by default every two.
    """
    return compared(paired(found, truth, weights, asked=asked))


def paired(
    found: Sequence[Measured], truth: Vector, weights: Matrix, *, asked: Iterable[tuple[int, int]] | None = None
) -> list[tuple[Measured, Measured]]:
    """Return pairs of panels, both measured on the networks and seeds that both scored; see `compare`.

    A panel is measured again only where the other panel lacks some of its scores.
    """
    pairs = list(combinations(range(len(found)), 2)) if asked is None else list(asked)
    masks = {(a, b): _common(found[a].panel, found[b].panel) for a, b in pairs}
    known = {(i, m.panel.finite.tobytes()): m for i, m in enumerate(found)}
    wanted: dict[tuple[int, bytes], Panel] = {}
    for pair, both in masks.items():
        for i, mask in zip(pair, both, strict=True):
            if (i, mask.tobytes()) not in known:
                panel = found[i].panel
                scores = np.where(mask, panel.scores, np.nan)
                wanted[i, mask.tobytes()] = dataclasses.replace(panel, scores=scores)
    anew = in_threads(partial(measure, truth=truth, weights=weights), wanted.values())
    known |= dict(zip(wanted, anew, strict=True))
    return [(known[a, of_a.tobytes()], known[b, of_b.tobytes()]) for (a, b), (of_a, of_b) in masks.items()]


def compared(pairs: Sequence[tuple[Measured, Measured]]) -> list[Comparison]:
    """Return the comparisons of pairs from `paired`; with fewer than `FEWEST` networks there are no coefficients."""
    counts = [int(first.panel.finite.any(1).sum()) for first, _ in pairs]
    rho, tau = (_gaps(pairs, counts, name) for name in ("rho", "tau"))
    return [
        Comparison(first.panel, second.panel, n, *gaps)
        for (first, second), n, *gaps in zip(pairs, counts, rho, tau, strict=True)
    ]


def _gaps(pairs: Sequence[tuple[Measured, Measured]], counts: Sequence[int], name: str) -> list[Difference]:
    """Return the differences of a coefficient between two panels on the same resamples, pair by pair."""
    if not pairs:
        return []

    def mean(m: Measured, field: str) -> NDArray[np.float64]:
        return m.panel.sign * mean_over_seeds(getattr(m, field))

    few = np.asarray(counts)[:, None] < FEWEST
    values = np.asarray([[mean(m, name) for m in pair] for pair in pairs])
    drawn = np.stack([mean(a, f"drawn_{name}") - mean(b, f"drawn_{name}") for a, b in pairs])
    return differences(np.where(few, np.nan, values), np.where(few, np.nan, drawn))


def _common(first: Panel, second: Panel) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each of two panels where both have a finite score of the same network and seed."""
    masks = np.zeros(first.scores.shape, dtype=bool), np.zeros(second.scores.shape, dtype=bool)
    for a, b in common_seeds(first, second):
        masks[0][:, a] = masks[1][:, b] = first.finite[:, a] & second.finite[:, b]
    return masks


def families(sample: Sample) -> list[tuple[str, list[Measured]]]:
    """Return the panels that are compared with each other, by their common batch size; "" if all have one batch size.

    A proxy with a single batch size, for example that of its protocol, is compared at every batch size of the others.
    """
    sizes: dict[tuple[str, int], set[int]] = {}
    for panel in sample.panels:
        sizes.setdefault((panel.proxy, panel.version), set()).add(panel.batch_size)
    several = sorted(set().union(*(own for own in sizes.values() if len(own) > 1)))
    if not several:
        return [("", sample.measured)]
    return [
        (
            str(size),
            [
                m
                for m in sample.measured
                if m.panel.batch_size == size or len(sizes[m.panel.proxy, m.panel.version]) == 1
            ],
        )
        for size in several
    ]


@dataclass(frozen=True)
class Agreed:
    """How alike two columns rank the networks: means over seeds, positive where both proxies rank as they claim.

    Attributes:
        kind: What the two columns differ in: proxies, seeds, batch sizes, data sets or truths.
        proxy: Name of the proxy, empty if the columns are of two proxies.
        batch_size: Batch size of the scores, None if the columns are of two batch sizes.
        first: Name of the first column.
        second: Name of the second column.
        n: Number of networks with a finite value in both columns, of the seed with the fewest.
        rho: Spearman; NaN for fewer than three networks or a constant side.
        tau: Kendall's tau-b; NaN as for `rho`.
    """

    kind: str
    proxy: str
    batch_size: int | None
    first: str
    second: str
    n: int
    rho: float
    tau: float


def agree(columns: Iterable[tuple[Vector, Vector]], sign: int = 1) -> tuple[int, float, float]:
    """Return the fewest networks of pairs of columns `(n,)`, and the means of rho and tau, multiplied by a sign."""
    common = [(x[both], y[both]) for x, y in columns for both in [np.isfinite(x) & np.isfinite(y)]]
    if not common:
        return 0, math.nan, math.nan
    rho, tau = (sign * mean_over_seeds(np.asarray([rho_and_tau(x, y) for x, y in common]))).tolist()
    return min(len(x) for x, _ in common), rho, tau


def between_proxies(sample: Sample, panels: Sequence[Panel]) -> Iterator[Agreed]:
    """Yield the agreement of every two panels: means over the seeds that both have."""
    seeds = sorted({seed for panel in panels for seed in panel.seeds})
    if not seeds:
        return
    found = np.stack([_every_two(panels, seed) for seed in seeds])
    fewest = np.nan_to_num(np.fmin.reduce(found[:, 0]))
    rhos, taus = mean_over_seeds(found[:, 1]), mean_over_seeds(found[:, 2])
    for (i, a), (j, b) in combinations(enumerate(panels), 2):
        rho, tau = (a.sign * b.sign * float(of[i, j]) for of in (rhos, taus))
        yield Agreed("proxies", "", None, sample.label(a), sample.label(b), int(fewest[i, j]), rho, tau)


def _every_two(panels: Sequence[Panel], seed: int) -> NDArray[np.float64]:
    """Return common networks, rho and tau of every two panels `(3, k, k)`, NaN for a panel without the seed."""
    columns = {i: panel.scores[:, panel.seeds.index(seed)] for i, panel in enumerate(panels) if seed in panel.seeds}
    groups: dict[bytes, list[int]] = {}  # of the panels that have scores of the same networks
    for i, column in columns.items():
        groups.setdefault(np.isfinite(column).tobytes(), []).append(i)
    found = np.full((3, len(panels), len(panels)), np.nan)
    for first, second in combinations_with_replacement(groups.values(), 2):
        both = np.isfinite(columns[first[0]]) & np.isfinite(columns[second[0]])
        own = sorted({*first, *second})
        rho, tau = every_two(np.column_stack([columns[i][both] for i in own]))
        one, other = ([own.index(i) for i in group] for group in (first, second))
        for values, of in zip(found, (np.full(rho.shape, both.sum()), rho, tau), strict=True):
            values[np.ix_(first, second)] = of[np.ix_(one, other)]
            values[np.ix_(second, first)] = of[np.ix_(other, one)]
    return found


def between_seeds(panel: Panel) -> Iterator[Agreed]:
    """Yield the agreement of the scores of every two seeds."""
    for a, b in combinations(range(len(panel.seeds)), 2):
        n, rho, tau = agree([(panel.scores[:, a], panel.scores[:, b])])
        yield Agreed("seeds", panel.proxy, panel.batch_size, str(panel.seeds[a]), str(panel.seeds[b]), n, rho, tau)


def between_batch_sizes(panels: Sequence[Panel]) -> Iterator[Agreed]:
    """Yield the agreement of every two batch sizes of one proxy, seed by seed."""
    for a, b in combinations(panels, 2):
        yield Agreed("batch sizes", a.proxy, None, str(a.batch_size), str(b.batch_size), *agree(_columns(a, b)))


def _columns(a: Panel, b: Panel) -> Iterator[tuple[Vector, Vector]]:
    """Yield the scores of two panels `(n,)` for every seed that both have."""
    return ((a.scores[:, i], b.scores[:, j]) for i, j in common_seeds(a, b))


@dataclass(frozen=True)
class Transferred:
    """Networks chosen by the scores of one board, measured by the accuracies of another board with the same networks.

    Attributes:
        source: Board of the scores.
        truth: Name of the accuracies.
        n: Number of networks to choose from.
        k: Number of chosen networks.
        best: Best accuracy among the chosen networks.
        regret: Best accuracy of all networks less `best`.
        rank: Rank of the most accurate network by score.
        percentile: Percentage of the other networks that score below the most accurate network.
        rho: Spearman of the scores with these accuracies, signed, mean over seeds.
        tau: Kendall's tau-b of the scores with these accuracies, mean over seeds.
    """

    source: Board
    proxy: str
    batch_size: int
    truth: str
    n: int
    k: int
    best: float
    regret: float
    rank: float
    percentile: float
    rho: float
    tau: float

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        return {name: value for name, value in vars(self).items() if name != "source"}


def across(boards: Sequence[tuple[Board, Sample]]) -> tuple[list[tuple[Board, Agreed]], list[Transferred]]:
    """Compare boards of one space, protocol and device on the networks that both have, if these are `FEWEST` or more.

    Compared are the scores of one proxy on two data sets, and two accuracies of the same networks. The networks that a
    proxy chooses on one data set are measured by the accuracies on another data set (Shu et al., NeurIPS 2022: HNAS).

    Returns:
        Agreements, with the board of the first column, and choices with the accuracies of other boards.
    """
    groups: dict[tuple[Any, ...], list[tuple[Board, Sample]]] = {}
    for board, sample in boards:
        recipe = board.recipe
        key = (recipe.space, recipe.protocol, recipe.device, recipe.torch)
        groups.setdefault(key, []).append((board, sample))
    agreed: list[tuple[Board, Agreed]] = []
    transferred: list[Transferred] = []
    for group in groups.values():
        # Of boards with the same accuracy, the largest stands for it.
        largest = sorted(reversed(group), key=lambda member: len(member[1].networks))
        truths = {board.recipe.truth: (board, sample) for board, sample in largest}
        for (name, (board, a)), (other, (_, b)) in combinations(sorted(truths.items()), 2):
            rows, others = _aligned(a, b)
            if len(rows) >= FEWEST:
                both = agree([(a.truth[rows], b.truth[others])])
                agreed.append((board, Agreed("truths", "", None, name, other, *both)))
        for (board, a), (other_board, b) in combinations(group, 2):
            if board.recipe.dataset != other_board.recipe.dataset:
                names = board.recipe.dataset, other_board.recipe.dataset
                agreed += [(board, row) for row in _between_data_sets(a, b, names)]
        if len(truths) > 1:
            for board, sample in group:
                for name, (_, other_sample) in sorted(truths.items()):
                    transferred += _transferred(board, sample, name, other_sample)
    return agreed, transferred


def _aligned(a: Sample, b: Sample) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the networks that two samples have in common."""
    place = {network: row for row, network in enumerate(b.networks)}
    pairs = [(row, place[network]) for row, network in enumerate(a.networks) if network in place]
    rows = np.asarray(pairs, dtype=np.intp).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _between_data_sets(a: Sample, b: Sample, names: tuple[str, str]) -> Iterator[Agreed]:
    rows, others = _aligned(a, b)
    if len(rows) < FEWEST:
        return
    theirs = {(panel.proxy, panel.version, panel.batch_size): panel for panel in b.panels}
    for panel in a.panels:
        other = theirs.get((panel.proxy, panel.version, panel.batch_size))
        if other is not None:
            n, rho, tau = agree((x[rows], y[others]) for x, y in _columns(panel, other))
            yield Agreed("data sets", panel.proxy, panel.batch_size, *names, n, rho, tau)


def _transferred(board: Board, sample: Sample, name: str, other: Sample) -> Iterator[Transferred]:
    rows, others = _aligned(sample, other)
    if len(rows) < FEWEST:
        return
    truth = other.truth[others]
    k = min(CHOSEN, len(rows))
    for panel in sample.panels:
        scores = panel.scores[rows]
        choice = choose(scores, truth, k, higher_is_better=panel.higher_is_better)
        rho, tau = over_seeds(rho_and_tau, scores, truth).tolist()
        yield Transferred(board, panel.proxy, panel.batch_size, name, **vars(choice), rho=rho, tau=tau)
