"""Trainability of AZ-NAS: how well gradients keep their size from block to block."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pixel_unshuffle

from ..errors import NotApplicableError
from .az_expressivity import NOISE
from .passes import Forward, Signs, Tap, Tapped
from .passes.taps import Place, blocks
from .registry import reads, register


def _gain(place: Place, signs: Tensor, gradient: Tensor) -> Tensor | None:
    """Return the score of a block, None if it does not map a feature map to a feature map."""
    if signs.ndim != 4 or gradient.ndim != 4:
        return None
    shrinks = gradient.shape[-1] // signs.shape[-1]
    if gradient.shape[2:] != tuple(shrinks * size for size in signs.shape[2:]):
        return None
    same_shape = signs.shape == gradient.shape
    unchanged = (signs == gradient).all() if same_shape else torch.zeros((), dtype=torch.bool, device=signs.device)
    gradient = pixel_unshuffle(gradient, shrinks)
    incoming, outgoing = (t.permute(0, 2, 3, 1).flatten(0, 2).double() for t in (gradient, signs))
    largest = torch.linalg.matrix_norm(incoming.T @ outgoing / len(outgoing), ord=2)
    return torch.where(unchanged, -math.inf, 2 - largest - 1 / (largest + 1e-6))


def gains(forward: Forward) -> Tap:
    """Return the tap that scores every block of a pass."""
    return Tap(Signs(forward), at=blocks, reduce=_gain)


GAINS = gains(NOISE)


@register("az_trainability", paper="Lee & Ham, AZ-NAS, CVPR 2024")
def az_trainability(gains: Tapped = reads(GAINS)) -> float:
    r"""Average over blocks how well a block keeps the size of the gradients that pass back through it.

    $$\operatorname{mean}_l \Big( 2 - \sigma_l - \frac{1}{\sigma_l + 10^{-6}} \Big), \qquad
    \sigma_l = \lVert G_l^\top S_l / (N H W) \rVert_2$$

    Here $S_l$ are random signs at the output of block l, and $G_l$ is the gradient that comes back at its input. Both
    are matrices of positions by channels; where a block shrinks the map, positions of its input become channels. The
    score is at most 1e-6, near $\sigma = 1$. It is `-inf` if a block passes the signs back unchanged. Weights are drawn
    by Kaiming fan-in and images from N(0, 1). Batch norm is in train mode, and norms are float64.

    Raises:
        NotApplicableError: The network has no sequence of blocks, or no block maps a feature map to a feature map.
    """
    found: list[float] = [gain for _, gain in gains if gain is not None]
    if not found:
        raise NotApplicableError("no block of the network maps a feature map (N, C, H, W) to a feature map")
    return sum(found) / len(found)
