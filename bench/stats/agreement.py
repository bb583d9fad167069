"""How alike columns of scores rank: both coefficients of every two columns at once.

The signs of all pairs of networks make one matrix, and its products are the coefficients of all pairs of columns. One
by one, each pair of columns would be put in order again.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .coefficients import rho_and_tau
from .ranks import WHOLE, Matrix, grades

#: Numbers that a block of signs may hold: 16 MiB, and few enough that sums of signs are exact in float32.
_ROOM = 2**22
#: All signs take n^2 steps, a pair of columns n^1.5: pairs are quicker for fewer columns than the root of n / 20.
_NETWORKS_PER_SQUARE = 20


def every_two(columns: Matrix) -> tuple[Matrix, Matrix]:
    r"""Return Spearman's rho and Kendall's tau-b of every two columns, each `(k, k)`.

    $$\rho = \frac{G^\top G}{\sqrt{d d^\top}}, \quad \tau = \frac{S^\top S}{\sqrt{u u^\top}}$$

    Column by column, G has `ranks.grades` of the networks, and S has the signs of the n x n pairs of networks. d and u
    are the diagonals of the products. All sums are of whole numbers, so every coefficient has the last digit of
    `coefficients.spearman` and `coefficients.kendall`, which a few columns of many networks are given to.

    Args:
        columns: `(n, k)`, finite. With fewer than three networks everything is NaN, and so is all of a constant column.
            The diagonal is 1 elsewhere.

    Raises:
        ValueError: A value is not finite.
    """
    if not np.isfinite(columns).all():
        raise ValueError("coefficient: expected finite values, got NaN or infinity: leave these networks out")
    n, k = columns.shape
    if n < 3 or not k:
        return np.full((k, k), np.nan), np.full((k, k), np.nan)
    rho, tau = _one_by_one(columns) if k * k * _NETWORKS_PER_SQUARE < n else _at_once(columns)
    for found in (rho, tau):
        # A quotient rounds by the order of the two columns: the first of a pair is the one before.
        found[:] = np.triu(found) + np.triu(found, 1).T
        np.fill_diagonal(found, np.where(columns.min(0) == columns.max(0), np.nan, 1))
    return rho, tau


def _one_by_one(columns: Matrix) -> tuple[Matrix, Matrix]:
    found = np.zeros((2, columns.shape[1], columns.shape[1]))
    for i, j in combinations(range(columns.shape[1]), 2):
        found[:, i, j] = rho_and_tau(columns[:, i], columns[:, j])
    return found[0], found[1]


def _at_once(columns: Matrix) -> tuple[Matrix, Matrix]:
    n, k = columns.shape
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in columns.T]).astype(WHOLE)
    alike = np.zeros((k, k))
    step = max(1, _ROOM // (n * k))
    for start in range(0, n, step):
        block = np.clip(ranks[:, start : start + step, None] - ranks[:, None, :], -1, 1).reshape(k, -1)
        alike += block @ block.T
    level = np.stack([grades(column) for column in columns.T])
    products = level @ level.T
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = products / np.sqrt(np.outer(products.diagonal(), products.diagonal()))
        untied = np.sqrt(alike.diagonal() / 2)
        tau = np.clip(alike / 2 / untied[:, None] / untied, -1, 1)
    return rho, tau
