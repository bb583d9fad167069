"""How much the images tell about the parameters."""

from __future__ import annotations

import torch
from torch import Tensor

from .passes.needs import Backward, Forward, PerImage
from .probe import Probe
from .registry import register

LOSS_ALONE = Backward(Forward(mode="alone"), "loss alone")


def _squares(gradients: dict[str, Tensor]) -> Tensor:
    return torch.stack([g.reshape(len(g), -1).square().sum(1, dtype=torch.float64) for g in gradients.values()]).sum(0)


SQUARES = PerImage(LOSS_ALONE, of="parameters", reduce=_squares)


@register("fisher_trace", needs=[SQUARES], paper="Amari, Neural Computation 10, 1998; the empirical Fisher information")
def fisher_trace(probe: Probe) -> float:
    r"""Take the trace of the empirical Fisher information.

    $$\operatorname{tr} F = \frac{1}{N} \sum_n \Big\lVert \frac{\partial \log p(y_n | x_n)}{\partial \theta}
    \Big\rVert_2^2$$

    over all parameters. Train mode, but every image normalised by its own statistics: with those of a batch, p would
    not be a function of one image. Sums in float64.

    Raises:
        NotApplicableError: No labels, or a batch norm of a single value an image.
    """
    return float(probe.per_image(SQUARES).mean())
