"""VKDNW: how evenly the Fisher information spreads over its eigenvalues."""

from __future__ import annotations

import torch
from torch import Tensor

from .passes import PARAMETERS, Forward, Logits, OfEach, PerImage
from .passes.inputs import NOISE as IMAGES_OF_NOISE
from .passes.objectives import ALL
from .registry import reads, register
from .vkdnw_dim import vkdnw_dim

TENSORS = 128
SMOOTHING = 0.05


def _first_elements(jacobian: dict[str, Tensor]) -> Tensor:
    """Return the Jacobian `(n, classes, P)` of the logits by the first element of each of the first P tensors."""
    return torch.cat(list(jacobian.values())[:TENSORS], 2).double()


def jacobians(forward: Forward) -> OfEach:
    """Return the need for the Jacobians of a pass."""
    return OfEach(PerImage(forward, ALL, of="first"), _first_elements)


NOISE = Forward(init="kaiming_fan_in", inputs=(IMAGES_OF_NOISE,), mode="eval")
JACOBIANS, LOGITS = jacobians(NOISE), Logits(NOISE)


def _entropy(information: Tensor) -> float:
    """Return the entropy of the deciles 0.1 to 0.9 of the singular values."""
    levels = torch.arange(1, 10, dtype=torch.float64, device=information.device) / 10
    deciles = torch.quantile(torch.linalg.svdvals(information), levels)
    share = deciles / (deciles.sum() + 1e-10)
    return float(-(share * (share + 1e-10).log()).sum())


@register("vkdnw", paper="Tybl & Neumann, VKDNW, 2025: dimension plus entropy")
def vkdnw(
    jacobian: Tensor = reads(JACOBIANS),
    logits: Tensor = reads(LOGITS),
    parameters: dict[str, Tensor] = reads(PARAMETERS),
) -> float:
    r"""Add the entropy of the spectrum of the Fisher information to the number of parameter tensors.

    $$\aleph + H(q), \qquad q = \text{deciles of the singular values of } F = \frac{1}{N} \sum_n J_n^\top
    (\operatorname{diag} p_n - p_n p_n^\top) J_n$$

    Here $J_n$ is the Jacobian of the logits of image n by the first element of each of the first 128 parameter tensors.
    p is the softmax smoothed by 0.05, and q is normalised to sum 1. H is the Shannon entropy. It is at most log 9, so
    it mainly decides between networks of the same count $\aleph$ (`vkdnw_dim`). Weights are drawn by Kaiming fan-in and
    images from N(0, 1), and batch norm is in eval mode. The Jacobian has the dtype of the network; what follows is
    float64.

    Deviation: the released code forms $J^\top L^\top L J$ with $L L^\top$ the covariance, not $J^\top L L^\top J$;
    see `vkdnw.as_released`.
    """
    return vkdnw_dim(parameters) + entropy(jacobian, logits)


def entropy(jacobian: Tensor, logits: Tensor) -> float:
    """Return the entropy of the Fisher information of the paper."""
    p = logits.softmax(1) * (1 - SMOOTHING)
    p = p + SMOOTHING / p.shape[1]
    covariance = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    return _entropy((jacobian.mT @ covariance @ jacobian).mean(0))


@register("vkdnw.as_released", paper="Tybl & Neumann, VKDNW, 2025, as their code computes it")
def vkdnw_as_released(
    jacobian: Tensor = reads(JACOBIANS),
    logits: Tensor = reads(LOGITS),
    parameters: dict[str, Tensor] = reads(PARAMETERS),
) -> float:
    r"""Compute vkdnw with the Fisher information of the released code.

    $$\aleph + H(q), \qquad F = \frac{1}{N} \sum_n J_n^\top L_n^\top L_n J_n, \qquad L_n L_n^\top =
    \operatorname{diag} p_n - p_n p_n^\top$$

    The smoothing constants are rounded to half precision. What follows the Jacobian is float64 here. The released code
    uses float32, which is wrong by a factor of 3 to 5 on networks of 75 tensors.
    """
    return vkdnw_dim(parameters) + entropy_as_released(jacobian, logits)


def entropy_as_released(jacobian: Tensor, logits: Tensor) -> float:
    """Return the entropy of the Fisher information of the released code."""
    smoothing = torch.tensor(SMOOTHING, dtype=torch.float16)
    p = logits.softmax(1) * float(1 - smoothing)
    p = p + float(smoothing) / p.shape[1]
    rows = _factor(p) @ jacobian
    return _entropy((rows.mT @ rows).mean(0))


def _factor(p: Tensor) -> Tensor:
    """Return the triangular factor `(N, classes, classes)` of a multinomial covariance (Tanabe & Sagae, 1992)."""
    rest = 1 - p.cumsum(1)
    rest[:, -1] = 0  # the probabilities may not sum to exactly one
    before = torch.cat([torch.ones_like(rest[:, :1]), rest[:, :-1]], 1)
    scale = (p * rest / before).sqrt()
    below = -(p[:, :, None] / rest[:, None, :])
    below = torch.where(below.isinf(), 0.0, below).tril(-1)
    return (below + torch.eye(p.shape[1], dtype=p.dtype, device=p.device)) * scale[:, None, :]
