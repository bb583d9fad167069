"""Jacobian covariance: how differently the network responds to different images."""

from __future__ import annotations

import torch
from torch import Tensor

from .passes import JACOBIAN
from .registry import reads, register

EPSILON = 1e-5


def correlations(rows: Tensor) -> Tensor:
    """Return the correlation matrix `(N, N)` of rows `(N, D)`; entries of a constant row are NaN."""
    centred = rows - rows.mean(1, keepdim=True)
    unit = centred / centred.norm(dim=1, keepdim=True)
    matrix: Tensor = unit @ unit.T
    return matrix


@register(
    "jacob_cov",
    paper="Mellor et al., Neural Architecture Search without Training, 2020 (v1), eq. 6; Abdelfattah et al., ICLR 2021",
    least_images=2,
)
def jacob_cov(gradient: Tensor = reads(JACOBIAN)) -> float:
    r"""Measure how differently the network responds to different images, by the correlations of input gradients.

    $$J = \frac{\partial \sum_{nc} f_c(x_n)}{\partial x} \in \mathbb{R}^{N \times D}, \qquad
    \text{jacob\_cov} = -\sum_i \Big( \log(\lambda_i + k) + \frac{1}{\lambda_i + k} \Big)$$

    Here $\lambda$ are the eigenvalues of the row correlations of J, and $k = 10^{-5}$. Batch norm is in train mode, so
    the row of an image includes its effect on the other images. The score is NaN if the gradient of an image is
    constant, because its correlations do not exist. The authors call a general eigenvalue solver, which can return
    complex pairs; the matrix is symmetric, so a symmetric solver is used here.
    """
    correlation = correlations(gradient.flatten(1).double())
    if not torch.isfinite(correlation).all():
        return float("nan")
    shifted = torch.linalg.eigvalsh(correlation) + EPSILON
    return -float((shifted.log() + shifted.reciprocal()).sum())
