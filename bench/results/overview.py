"""The overview of several boards: every proxy on every board, and one order over all boards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..stats.places import Place
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
        mean_rank: Mean over all boards of its rank by Kendall's tau, with the means of the first and the last ranks
            that the data leave open; NaN for a proxy that a board lacks.
        lowest_tau: The least Kendall's tau over all boards, in the direction that the proxy claims; NaN for a proxy
            that a board lacks, or that has no tau on one.
        not_told_from_best: Number of boards on which it is not told apart from the best proxy of the board.
        ms: Median over boards of the milliseconds that a network takes.
        of_boards: Number of boards there are.
    """

    proxy: str
    cells: Mapping[str, Cell]
    mean_rank: float
    mean_rank_low: float
    mean_rank_high: float
    lowest_tau: float
    not_told_from_best: int
    ms: float
    of_boards: int

    @property
    def boards_with_tau(self) -> int:
        """Number of boards on which the proxy has a Kendall's tau."""
        return sum(not math.isnan(cell.ranking.claimed_tau) for cell in self.cells.values())

    @property
    def blank(self) -> str:
        """Why there is no mean rank, or no lowest tau; an empty text where both are there."""
        if lacking := self.of_boards - len(self.cells):
            return f"not scored on {lacking} of {self.of_boards} boards"
        without = self.of_boards - self.boards_with_tau
        return f"no tau on {without} of {self.of_boards} boards" if without else ""

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV; a number that is missing is blank, and `blank` says why."""
        record = {name: value for name, value in vars(self).items() if name not in {"cells", "of_boards"}}
        record = {
            name: "" if isinstance(value, float) and math.isnan(value) else value for name, value in record.items()
        }
        return record | {"boards": len(self.cells), "boards_with_tau": self.boards_with_tau, "blank": self.blank}


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

    The boards are as they are: another choice of boards gives another order. Every board counts once. A proxy without a
    coefficient on a board shares the last rank there, and a proxy with several batch sizes on a board is taken with the
    largest of them.
    """
    cells: dict[str, dict[str, Cell]] = {}
    for standing in standings:
        for ranking, place in sorted(
            zip(standing.rankings, standing.places, strict=True), key=lambda pair: pair[0].batch_size
        ):
            cells.setdefault(ranking.proxy, {})[standing.board.id] = Cell(ranking, place)
    last = {s.board.id: len({r.proxy for r in s.rankings}) for s in standings}
    found = []
    for proxy, own in cells.items():
        complete = len(own) == len(standings)
        ranks = [
            (cell.place.rank, cell.place.low, cell.place.high) if cell.place else (last[board],) * 3
            for board, cell in own.items()
        ]
        mean, low, high = np.mean(ranks, axis=0).tolist() if complete else (np.nan,) * 3
        found.append(
            Overall(
                proxy,
                own,
                mean,
                low,
                high,
                lowest_tau=float(np.min([c.ranking.claimed_tau for c in own.values()])) if complete else np.nan,
                not_told_from_best=sum(cell.place is not None and cell.place.low == 1 for cell in own.values()),
                ms=float(np.median([cell.ranking.ms for cell in own.values()])),
                of_boards=len(standings),
            )
        )
    return sorted(found, key=lambda o: (np.nan_to_num(o.mean_rank, nan=np.inf), -len(o.cells), o.proxy))
