"""The condition of the neural tangent kernel: how evenly gradient descent fits the images."""

from __future__ import annotations

import torch
from torch import Tensor

from .hnas import condition
from .passes.needs import DATA, Backward, Forward, Gradient, PerImage
from .probe import Probe
from .registry import register

EACH = Gradient(Backward(DATA, "ones of each"), of="parameters")


def _weight_rows(gradients: dict[str, Tensor]) -> Tensor:
    rows = [gradient.flatten(1) for name, gradient in gradients.items() if "weight" in name]
    return torch.cat(rows, 1) if rows else next(iter(gradients.values())).flatten(1)[:, :0]


PER_IMAGE_IN_EVAL = PerImage(Backward(Forward(mode="eval"), "ones per image"), of="parameters", reduce=_weight_rows)


@register(
    "ntk_condition", needs=[EACH], paper="Chen et al., TE-NAS, ICLR 2021, eq. 2", direction="lower", least_images=2
)
def ntk_condition(probe: Probe) -> float:
    r"""Take the condition number of the empirical neural tangent kernel.

    $$\Theta_{nm} = \Big\langle \frac{\partial \sum_c f_c(x_n)}{\partial W}, \frac{\partial \sum_c f_c(x_m)}{\partial W}
    \Big\rangle, \qquad \kappa = \lambda_{\max} / \lambda_{\min}$$

    Here W are the parameters whose name contains "weight", norm layers included, as in the authors' code. Batch norm is
    in train mode, so images share their statistics. The Gram matrix and its eigenvalues are float64. Lower is better.
    If the smallest eigenvalue is zero, the score is round-off, infinite or NaN; the authors write 100,000 for NaN. They
    also draw new weights; here the weights are as given.
    """
    gram = sum(
        rows @ rows.T
        for rows in (g.flatten(1).double() for name, g in probe.gradients(EACH).items() if "weight" in name)
    )
    return condition(gram) if isinstance(gram, Tensor) else float("nan")


@register(
    "ntk_condition.eval",
    needs=[PER_IMAGE_IN_EVAL],
    paper="Chen et al., TE-NAS, in eval mode",
    direction="lower",
    least_images=2,
)
def ntk_condition_in_eval_mode(probe: Probe) -> float:
    r"""Compute ntk_condition with batch norm in eval mode, where images do not share statistics.

    $$\kappa(\Theta)$$

    One vectorised pass then gives the gradients of all images, at a few times the cost of a plain pass.
    """
    rows = probe.per_image(PER_IMAGE_IN_EVAL).double()
    return condition(rows @ rows.T)
