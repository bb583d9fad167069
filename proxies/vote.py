"""The vote of synflow, jacob_cov and snip."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .aggregate import Vector, aggregate

#: Number of rows of the comparison matrix that are held at a time.
_BLOCK = 256


@aggregate(
    "vote",
    of=["synflow", "jacob_cov", "snip"],
    paper="Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021",
)
def vote(scores: Mapping[str, Vector]) -> Vector:
    r"""Count the networks of the pool that a majority of synflow, jacob_cov and snip ranks below this one.

    $$\sum_j 1\Big[ \sum_k \operatorname{sign}(s_{ki} - s_{kj}) > 0 \Big] + \tfrac12 \, 1\Big[ \sum_k \dots = 0 \Big]$$

    The paper votes on pairs of networks. Such votes need not be transitive, so networks are ordered by the number of
    pairs that they win. Scores change with the pool.
    """
    members = list(scores.values())
    wins = np.zeros(len(members[0]))
    for start in range(0, len(wins), _BLOCK):
        some = slice(start, start + _BLOCK)
        votes = sum(np.greater(s[some, None], s).astype(np.int8) - np.less(s[some, None], s) for s in members)
        # Each network ties with itself, which does not count.
        wins[some] = np.greater(votes, 0).sum(1) + 0.5 * (np.equal(votes, 0).sum(1) - 1)
    return wins
