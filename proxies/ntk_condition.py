"""How evenly gradient descent would fit the images."""

from __future__ import annotations

import torch

from .passes import DATA, Backward, Forward, Gradient
from .probe import Probe
from .registry import register

EACH = Gradient(Backward(DATA, "samples"), of="parameters")
EACH_IN_EVAL = Gradient(Backward(Forward(mode="eval"), "samples"), of="parameters")


def _condition(probe: Probe, each: Gradient) -> float:
    gram = None
    for name, gradient in probe.gradients(each).items():
        if "weight" in name:
            rows = gradient.flatten(1).double()
            gram = rows @ rows.T if gram is None else gram + rows @ rows.T
    if gram is None:
        return float("nan")
    eigenvalues = torch.linalg.eigvalsh(gram)
    return float(eigenvalues[-1] / eigenvalues[0])


@register("ntk_condition", needs=[EACH], paper="Chen et al., TE-NAS, ICLR 2021, eq. 2", direction="lower")
def ntk_condition(probe: Probe) -> float:
    r"""Take the condition number of the empirical neural tangent kernel.

    $$\Theta_{nm} = \Big\langle \frac{\partial \sum_c f_c(x_n)}{\partial W}, \frac{\partial \sum_c f_c(x_m)}{\partial W}
    \Big\rangle, \qquad \kappa = \lambda_{\max} / \lambda_{\min}$$

    over parameters whose name contains "weight", norm layers included, as the authors' code selects. Batch norm in
    train mode, so images share their statistics. Gram matrix and eigenvalues in float64. Lower is better. Where the
    smallest eigenvalue is zero the number is round-off, infinite or NaN; the authors write 100,000 for NaN. They also
    redraw the weights, which is left to the caller here.
    """
    return _condition(probe, EACH)


@register("ntk_condition.eval", needs=[EACH_IN_EVAL], paper="Chen et al., TE-NAS, in eval mode", direction="lower")
def ntk_condition_in_eval_mode(probe: Probe) -> float:
    r"""Compute ntk_condition in eval mode, where images do not share statistics.

    $$\kappa(\Theta)$$
    """
    return _condition(probe, EACH_IN_EVAL)
