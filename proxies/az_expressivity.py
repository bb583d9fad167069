"""How evenly features spread over their channels."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .passes.needs import Forward, Tap, blocks, first_block
from .probe import Probe
from .registry import register

NOISE = Forward(init="kaiming_fan_in", inputs=("noise",))


def _entropy(activation: Tensor) -> float | None:
    """Return the entropy of the normalised eigenvalues of the channel covariance; None for what is no feature map."""
    if activation.ndim != 4:
        return None
    rows = activation.permute(0, 2, 3, 1).flatten(0, 2).double()
    rows = rows - rows.mean(0)
    values = torch.linalg.eigvalsh(rows.T @ rows / len(rows))
    share = values / values.sum()
    return float(-(share * (share + 1e-8).log()).sum())


def entropies(probe: Probe, forward: Forward) -> list[float]:
    """Return the entropies of the input of the first block and of the output of every block.

    Raises:
        NotApplicableError: None of them is a feature map.
    """
    found = [entropy for tap in entropy_taps(forward) for _, entropy in probe.tap(tap) if entropy is not None]
    if len(found) < 2:
        raise NotApplicableError("the network has no two feature maps in a row")
    return found


def entropy_taps(forward: Forward) -> tuple[Tap, Tap]:
    """Return the taps that `entropies` reads."""
    return Tap(forward, at=first_block, reduce=_entropy, side="input"), Tap(forward, at=blocks, reduce=_entropy)


@register("az_expressivity", needs=entropy_taps(NOISE), paper="Lee & Ham, AZ-NAS, CVPR 2024")
def az_expressivity(probe: Probe, forward: Forward = NOISE) -> float:
    r"""Add up the entropies of the principal components of block features.

    $$\sum_l s_l, \qquad s_l = -\sum_k p_{lk} \log(p_{lk} + 10^{-8}), \qquad
    p_l = \lambda_l / \lVert \lambda_l \rVert_1$$

    with $\lambda_l$ the eigenvalues of the channel covariance of feature map l over images and positions: the stem's
    and every block's. Kaiming fan-in weights, N(0, 1) images, train mode, float64 eigenvalues. NaN where features are
    constant; the authors write minus infinity.

    Raises:
        NotApplicableError: The network is no sequence of blocks with feature maps.
    """
    return sum(entropies(probe, forward))
