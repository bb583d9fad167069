"""Expressivity of AZ-NAS: how evenly features spread over their principal components."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .passes import Forward, Tap, Tapped
from .passes.inputs import NOISE as IMAGES_OF_NOISE
from .passes.taps import Place, blocks, first_block
from .registry import reads, register

NOISE = Forward(init="kaiming_fan_in", inputs=(IMAGES_OF_NOISE,))


def _entropy(place: Place, activation: Tensor) -> Tensor | None:
    """Return the entropy of the normalised eigenvalues of the channel covariance, None if this is no feature map."""
    if activation.ndim != 4:
        return None
    rows = activation.permute(0, 2, 3, 1).flatten(0, 2).double()
    rows = rows - rows.mean(0)
    values = torch.linalg.eigvalsh(rows.T @ rows / len(rows))
    share = values / values.sum()
    entropy: Tensor = -(share * (share + 1e-8).log()).sum()
    return entropy


def entropies(stem: Tapped, outputs: Tapped) -> list[float]:
    """Return the entropies of the input of the first block and of the output of every block.

    Raises:
        NotApplicableError: Fewer than two of these are feature maps.
    """
    found = [entropy for _, entropy in (*stem, *outputs) if entropy is not None]
    if len(found) < 2:
        raise NotApplicableError("the blocks of the network give fewer than two feature maps (N, C, H, W)")
    return found


def entropy_taps(forward: Forward) -> tuple[Tap, Tap]:
    """Return the taps that `entropies` reads."""
    return Tap(forward, at=first_block, reduce=_entropy, side="input"), Tap(forward, at=blocks, reduce=_entropy)


STEM, OUTPUTS = entropy_taps(NOISE)


@register("az_expressivity", paper="Lee & Ham, AZ-NAS, CVPR 2024")
def az_expressivity(stem: Tapped = reads(STEM), outputs: Tapped = reads(OUTPUTS)) -> float:
    r"""Add up how evenly the features of each block spread over their principal components.

    $$\sum_l s_l, \qquad s_l = -\sum_k p_{lk} \log(p_{lk} + 10^{-8}), \qquad
    p_l = \lambda_l / \lVert \lambda_l \rVert_1$$

    Here $\lambda_l$ are the eigenvalues of the channel covariance of feature map l over images and positions. The
    feature maps are the outputs of the stem and of every block. Weights are drawn by Kaiming fan-in and images from
    N(0, 1). Batch norm is in train mode, and eigenvalues are float64. The score is NaN if the features of a block are
    constant; the authors' code gives minus infinity there.

    Raises:
        NotApplicableError: The network has no sequence of blocks, or fewer than two feature maps.
    """
    return sum(entropies(stem, outputs))
