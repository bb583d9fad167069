"""Places on a board: the rank of every proxy, and the ranks that the data leave open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .ranks import Matrix, Vector

#: Two proxies are told apart where the p-value of their difference, after Holm's correction, is below this.
LEVEL = 0.05


@dataclass(frozen=True)
class Place:
    """The rank of a proxy, 1 for the best, and the first and last rank that it may have.

    Proxies that are not told apart have overlapping ranks. A proxy whose `low` is 1 is not told apart from the best.
    """

    rank: int
    low: int
    high: int

    def __str__(self) -> str:
        """Return rank and range, as in `3 (1-7)`."""
        return f"{self.rank} ({self.low}-{self.high})" if self.low < self.high else str(self.rank)


def places(values: Vector, differences: Matrix, p: Matrix) -> list[Place | None]:
    r"""Return the place of every proxy, None for one without a coefficient.

    $$1 + |\{j : j \text{ better}\}| \le \text{rank} \le k - |\{j : j \text{ worse}\}|$$

    A proxy is behind another one that has a higher coefficient on the networks that both scored, so a proxy that has
    left out networks that are easy to rank is not held against others on other networks. The rank is one more than the
    number of proxies that are behind fewer others (Copeland's order of pairs), moved into the range. Where all scored
    the same networks, it is the rank of the coefficient. Pairs can go in a circle, and proxies in one share a rank.

    Better and worse are the proxies whose paired difference is significant. With p-values that are corrected over all
    pairs, the ranges of all k proxies hold together with the confidence of the correction (Mogstad, Romano, Shaikh and
    Wilhelm, Review of Economic Studies 2024). The percentiles of resampled ranks do not: resampling pulls the ranks of
    equal proxies apart.

    Args:
        values: `(k,)`, coefficients, positive where a proxy ranks as it claims.
        differences: `(k, k)`, coefficient of the row less that of the column, on the networks that both scored; NaN
            where there are too few, and the coefficients on all networks decide the rank.
        p: `(k, k)`, corrected p-values of the differences, NaN where there is none.
    """
    known = ~np.isnan(values)
    count = int(known.sum())
    apart: NDArray[np.bool_] = (p < LEVEL) & known[:, None] & known
    gaps = np.where(np.isnan(differences), values[:, None] - values, differences)
    behind = ((gaps < 0) & known).sum(1)
    lows = 1 + (apart & (gaps < 0)).sum(1)
    highs = count - (apart & (gaps > 0)).sum(1)
    found: list[Place | None] = []
    for own, low, high, has in zip(behind, lows.tolist(), highs.tolist(), known, strict=True):
        rank = 1 + int((behind[known] < own).sum())
        found.append(Place(min(max(rank, low), high), low, high) if has else None)
    return found
