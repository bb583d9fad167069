"""How alike columns of scores rank: both coefficients of every two columns at once.

The signs of all pairs of networks make one matrix, and its products are the coefficients of all pairs of columns. One
by one, each pair of columns would be put in order again.
"""

from __future__ import annotations

import numpy as np

from .ranks import WHOLE, Matrix, grades

#: Numbers that a block of signs may hold: 16 MiB, and few enough that sums of signs are exact in float32.
_ROOM = 2**22


def every_two(columns: Matrix) -> tuple[Matrix, Matrix]:
    r"""Return Spearman's rho and Kendall's tau-b of every two columns, each `(k, k)`.

    $$\rho = \frac{G^\top G}{\sqrt{d d^\top}}, \quad \tau = \frac{S^\top S}{\sqrt{u u^\top}}$$

    Column by column, G has `ranks.grades` of the networks, and S has the signs of the n x n pairs of networks. d and u
    are the diagonals of the products. All sums are of whole numbers, so every coefficient has the last digit of
    `coefficients.spearman` and `coefficients.kendall`.

    Args:
        columns: `(n, k)`, finite. With fewer than three networks everything is NaN, as is a constant column.

    Raises:
        ValueError: A value is not finite.
    """
    if not np.isfinite(columns).all():
        raise ValueError("coefficient: expected finite values, got NaN or infinity: leave these networks out")
    n, k = columns.shape
    if n < 3 or not k:
        return np.full((k, k), np.nan), np.full((k, k), np.nan)
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
