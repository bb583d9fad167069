"""The overview of several boards: every proxy on every board, and one order over all boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..stats.bootstrap import interval
from ..stats.coefficients import mean_over_seeds
from ..stats.places import Place
from ..stats.ranks import Matrix, Vector
from .ablation import Ablation
from .board import Board
from .pairs import Agreed, Transferred
from .ranking import Ranking
from .standing import Standing


@dataclass(frozen=True)
class Cell:
    """One proxy on one board: how it ranks there, and its place among the proxies of the board."""

    ranking: Ranking
    place: Place | None


@dataclass(frozen=True)
class Overall:
    """One proxy over all boards.

    Attributes:
        cells: How the proxy ranks on every board that has it, by the id of the board.
        mean_rank: Mean over all boards of its rank among the proxies that all boards have, by Kendall's tau, with its
            95 % interval over networks; NaN for a proxy that a board lacks.
        lowest_tau: The least Kendall's tau over all boards, in the direction that the proxy claims; NaN as for
            `mean_rank`.
        not_told_from_best: Number of boards on which it is not told apart from the best proxy of the board.
        ms: Median over boards of the milliseconds that a network takes.
    """

    proxy: str
    cells: Mapping[str, Cell]
    mean_rank: float
    mean_rank_low: float
    mean_rank_high: float
    lowest_tau: float
    not_told_from_best: int
    ms: float

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        record = {name: value for name, value in vars(self).items() if name != "cells"}
        return record | {"boards": len(self.cells)}


@dataclass(frozen=True)
class Leaderboard:
    """All results of the boards of a results folder.

    Attributes:
        standings: How the proxies of every board rank.
        ablations: Ablations of boards with several seeds or batch sizes, and of boards whose seed also draws networks.
        overall: Every proxy over all boards, the best first.
        agreements: Agreement between two boards on the same networks, with the first of the two boards.
        transfers: Accuracies on one board of the networks that are chosen by the scores of another.
    """

    standings: Sequence[Standing]
    overall: Sequence[Overall]
    ablations: Sequence[Ablation]
    agreements: Sequence[tuple[Board, Agreed]]
    transfers: Sequence[Transferred]


def overview(standings: Sequence[Standing]) -> list[Overall]:
    """Put the proxies of several boards in one order: the lowest mean rank first, then those that a board lacks.

    The boards are as they are: another choice of boards gives another order. The interval says what other networks of
    the same spaces would change. Every board counts once, and a proxy without a coefficient on a board is the last
    there. A proxy with several batch sizes on a board is taken with the largest of them.
    """
    cells: dict[str, dict[str, Cell]] = {}
    for standing in standings:
        for ranking, place in sorted(
            zip(standing.rankings, standing.places, strict=True), key=lambda pair: pair[0].batch_size
        ):
            cells.setdefault(ranking.proxy, {})[standing.board.id] = Cell(ranking, place)
    complete = sorted(proxy for proxy, own in cells.items() if len(own) == len(standings))
    means, drawn = (np.mean(of, axis=0) for of in zip(*(_ranks(s, complete, cells) for s in standings), strict=True))
    found = [
        Overall(
            proxy,
            own,
            *((float(means[at]), *interval(drawn[at])) if at is not None else (np.nan,) * 3),
            lowest_tau=min(cell.ranking.claimed_tau for cell in own.values()) if at is not None else np.nan,
            not_told_from_best=sum(cell.place is not None and cell.place.low == 1 for cell in own.values()),
            ms=float(np.median([cell.ranking.ms for cell in own.values()])),
        )
        for proxy, own in cells.items()
        for at in [complete.index(proxy) if proxy in complete else None]
    ]
    return sorted(found, key=lambda o: (np.nan_to_num(o.mean_rank, nan=np.inf), -len(o.cells), o.proxy))


def _ranks(
    standing: Standing, proxies: Sequence[str], cells: Mapping[str, Mapping[str, Cell]]
) -> tuple[Vector, Matrix]:
    """Return the ranks of some proxies on a board `(k,)`, and those of every resample `(k, resamples)`."""
    measured = {(m.panel.proxy, m.panel.batch_size): m for m in standing.sample.measured}
    own = [measured[proxy, cells[proxy][standing.board.id].ranking.batch_size] for proxy in proxies]
    values = np.asarray([m.panel.sign * mean_over_seeds(m.tau) for m in own])
    drawn = np.asarray([m.panel.sign * mean_over_seeds(m.drawn_tau) for m in own])
    if not drawn.size:  # a census has no resamples: its ranks are what they are
        return _ranked(values[:, None])[:, 0], np.repeat(_ranked(values[:, None]), max(1, drawn.shape[-1]), axis=1)
    return _ranked(values[:, None])[:, 0], _ranked(drawn)


def _ranked(values: Matrix) -> Matrix:
    """Return ranks from 1 for the highest, column by column; equal values share the mean of theirs, NaN is last."""
    known = np.nan_to_num(values, nan=-np.inf)
    above = (known[None] > known[:, None]).sum(1)
    equal = (known[None] == known[:, None]).sum(1)
    result: Matrix = above + (equal + 1) / 2
    return result
