"""The trace of the Fisher information: how much the images tell about the parameters."""

from __future__ import annotations

import torch
from torch import Tensor

from .passes import Forward, OfEach, PerImage
from .passes.objectives import CROSS_ENTROPY
from .registry import reads, register

LOSS_PER_IMAGE = PerImage(Forward(mode="per_image"), CROSS_ENTROPY)


def _squares(gradients: dict[str, Tensor]) -> Tensor:
    return torch.stack([g.reshape(len(g), -1).square().sum(1, dtype=torch.float64) for g in gradients.values()]).sum(0)


SQUARES = OfEach(LOSS_PER_IMAGE, _squares)


@register("fisher_trace", paper="Amari, Neural Computation 10, 1998; the empirical Fisher information")
def fisher_trace(squares: Tensor = reads(SQUARES)) -> float:
    r"""Take the trace of the empirical Fisher information: the mean squared gradient norm of single images.

    $$\operatorname{tr} F = \frac{1}{N} \sum_n \Big\lVert \frac{\partial \log p(y_n | x_n)}{\partial \theta}
    \Big\rVert_2^2$$

    The sum is over all parameters, in float64. Batch norm is in train mode and normalises each image by its own
    statistics: with those of a batch, p would depend on the other images.

    Raises:
        NotApplicableError: There are no labels, or a batch norm sees a single value per image.
    """
    return float(squares.mean())
