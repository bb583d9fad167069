"""The condition of the neural tangent kernel: how evenly gradient descent fits the images."""

from __future__ import annotations

import torch
from torch import Tensor

from .hnas import condition
from .passes import DATA, Backward, Forward, OfEach, ParameterGradients, PerImage
from .passes.objectives import SUM, SUM_OF_EACH
from .registry import reads, register

EACH = ParameterGradients(Backward(DATA, SUM_OF_EACH))


def _weight_rows(gradients: dict[str, Tensor]) -> Tensor:
    rows = [gradient.flatten(1) for name, gradient in gradients.items() if "weight" in name]
    return torch.cat(rows, 1) if rows else next(iter(gradients.values())).flatten(1)[:, :0]


PER_IMAGE_IN_EVAL = OfEach(PerImage(Forward(mode="eval"), SUM), _weight_rows)


@register("ntk_condition", paper="Chen et al., TE-NAS, ICLR 2021, eq. 2", direction="lower", least_images=2)
def ntk_condition(gradients: dict[str, Tensor] = reads(EACH)) -> float:
    r"""Take the condition number of the empirical neural tangent kernel.

    $$\Theta_{nm} = \Big\langle \frac{\partial \sum_c f_c(x_n)}{\partial W}, \frac{\partial \sum_c f_c(x_m)}{\partial W}
    \Big\rangle, \qquad \kappa = \lambda_{\max} / \lambda_{\min}$$

    Here W are the parameters whose name contains "weight", norm layers included, as in the authors' code. Batch norm is
    in train mode, so images share their statistics. The Gram matrix and its eigenvalues are float64. Lower is better.
    If the smallest eigenvalue is zero, the score is round-off, infinite or NaN; the authors write 100,000 for NaN. They
    also draw new weights; here the weights are as given.
    """
    gram = sum(rows @ rows.T for rows in (g.flatten(1).double() for name, g in gradients.items() if "weight" in name))
    return condition(gram) if isinstance(gram, Tensor) else float("nan")


@register(
    "ntk_condition.eval",
    paper="Chen et al., TE-NAS, in eval mode",
    direction="lower",
    least_images=2,
)
def ntk_condition_in_eval_mode(rows: Tensor = reads(PER_IMAGE_IN_EVAL)) -> float:
    r"""Compute ntk_condition with batch norm in eval mode, where images do not share statistics.

    $$\kappa(\Theta)$$

    One vectorised pass then gives the gradients of all images, at a few times the cost of a plain pass.
    """
    rows = rows.double()
    return condition(rows @ rows.T)
