"""The condition of the neural tangent kernel: how evenly gradient descent fits the images."""

from __future__ import annotations

import torch
from torch import Tensor

from .hnas import condition
from .passes import DATA, OPERATIONS, Backward, Forward, OfEach, Operations, ParameterGradients, PerImage
from .passes.objectives import SUM, SUM_OF_EACH
from .registry import reads, register

EACH = ParameterGradients(Backward(DATA, SUM_OF_EACH))


def _weight_rows(gradients: dict[str, Tensor]) -> Tensor:
    return torch.cat([gradient.flatten(1) for gradient in gradients.values()], 1)


PER_IMAGE_IN_EVAL = OfEach(PerImage(Forward(mode="eval"), SUM), _weight_rows, of="factors")


@register("ntk_condition", paper="Chen et al., TE-NAS, ICLR 2021, eq. 2", direction="lower", least_images=2)
def ntk_condition(gradients: dict[str, Tensor] = reads(EACH), operations: Operations = reads(OPERATIONS)) -> float:
    r"""Take the condition number of the empirical neural tangent kernel.

    $$\Theta_{nm} = \Big\langle \frac{\partial \sum_c f_c(x_n)}{\partial W}, \frac{\partial \sum_c f_c(x_m)}{\partial W}
    \Big\rangle, \qquad \kappa = \lambda_{\max} / \lambda_{\min}$$

    Here W are the weights of convolutions, linear maps and norms; the authors' code takes the parameters whose name
    contains "weight". Batch norm is in train mode, so images share their statistics. The Gram matrix and its
    eigenvalues are float64. Lower is better.
    If the smallest eigenvalue is zero, the score is round-off, infinite or NaN; the authors write 100,000 for NaN. They
    also draw new weights; here the weights are as given.
    """
    rows = [gradients[name].flatten(1).double() for name in operations.factors]
    total: Tensor = sum((r @ r.T for r in rows[1:]), rows[0] @ rows[0].T)
    return condition(total)


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
