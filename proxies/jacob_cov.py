"""How differently a network answers to different images."""

from __future__ import annotations

import torch
from torch import Tensor

from .passes.needs import JACOBIAN
from .probe import Probe
from .registry import register

EPSILON = 1e-5


def correlations(rows: Tensor) -> Tensor:
    """Return the correlation matrix `(N, N)` of rows `(N, D)`, NaN where a row is constant."""
    centred = rows - rows.mean(1, keepdim=True)
    unit = centred / centred.norm(dim=1, keepdim=True)
    matrix: Tensor = unit @ unit.T
    return matrix


@register(
    "jacob_cov",
    needs=[JACOBIAN],
    paper="Mellor et al., Neural Architecture Search without Training, 2020 (v1), eq. 6; Abdelfattah et al., ICLR 2021",
    least_images=2,
)
def jacob_cov(probe: Probe) -> float:
    r"""Score the correlation matrix of the input gradients of the images.

    $$J = \frac{\partial \sum_{nc} f_c(x_n)}{\partial x} \in \mathbb{R}^{N \times D}, \qquad
    \text{jacob\_cov} = -\sum_i \Big( \log(\lambda_i + k) + \frac{1}{\lambda_i + k} \Big)$$

    with $\lambda$ the eigenvalues of the row correlations of J and $k = 10^{-5}$. Batch norm in train mode, so a row
    holds what its image does to the others too. NaN where an image has no gradient: its correlation does not exist. The
    authors call a general eigenvalue solver, which can return complex pairs; the matrix is symmetric and is treated so.
    """
    jacobian = probe.input_gradient(JACOBIAN).flatten(1).double()
    correlation = correlations(jacobian)
    if not torch.isfinite(correlation).all():
        return float("nan")
    shifted = torch.linalg.eigvalsh(correlation) + EPSILON
    return -float((shifted.log() + shifted.reciprocal()).sum())
