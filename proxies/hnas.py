"""The criterion and the family of measures of HNAS."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .grasp import CURVATURE, grasp
from .ntk_trace import EACH, PRODUCTS, kernel, kernel_as_released, root_trace
from .passes.needs import LOSS
from .plain import plain
from .probe import Probe
from .registry import register

PAPER = "Shu et al., HNAS, NeurIPS 2022"
#: The middle of what the authors search by Bayesian optimisation: 10^c, c in [-4, 0], and 5,000 times [0, 1].
MU, NU = 1e-2, 2500.0


def condition(theta: Tensor) -> float:
    """Return the largest over the smallest eigenvalue."""
    eigenvalues = torch.linalg.eigvalsh(theta)
    return float(eigenvalues[-1] / eigenvalues[0])


def _criterion(theta: Tensor, mu: float, nu: float) -> float:
    m = root_trace(theta)
    return mu * abs(m**2 - nu**2) + condition(theta) / (m + 1e-6)


@register("hnas", needs=[EACH], paper=f"{PAPER} (the criterion of its search)", direction="lower", least_images=2)
def hnas(probe: Probe, mu: float = MU, nu: float = NU) -> float:
    r"""Weigh the distance of the kernel's trace from a target against its condition number.

    $$\mu \, |M^2 - \nu^2| + \frac{\kappa}{M + 10^{-6}}$$

    with M and the kernel as in ntk_trace and $\kappa$ its largest over its smallest eigenvalue. Lower is better. The
    authors fit $\mu$ and $\nu$ to validation accuracies; by default they are the middle of the ranges searched.
    """
    return _criterion(kernel(probe), mu, nu)


@register("hnas.as_released", needs=[PRODUCTS], paper=f"{PAPER}, as their code", direction="lower", least_images=2)
def hnas_as_released(probe: Probe, mu: float = MU, nu: float = NU) -> float:
    r"""Compute hnas from the kernel of ntk_trace.as_released.

    $$\mu \, |M^2 - \nu^2| + \frac{\kappa}{M + 10^{-6}}$$
    """
    return _criterion(kernel_as_released(probe), mu, nu)


@register("hnas.grad", needs=[LOSS], paper=f"{PAPER} (M_Grad)")
def m_grad(probe: Probe) -> float:
    r"""Take the norm of the gradient of the mean loss.

    $$M_{\text{grad}} = \Big\lVert \frac{1}{N} \sum_n \nabla_\theta L(x_n, y_n) \Big\rVert_2$$

    over convolution and linear weights, as one vector: grad_norm adds up norms of layers instead.
    """
    return math.hypot(*(float(gradient.norm()) for _, gradient in probe.weights_and_gradients(LOSS)))


@register("hnas.snip", needs=[LOSS], paper=f"{PAPER} (M_SNIP)")
def m_snip(probe: Probe) -> float:
    r"""Take the size of the inner product of weights and mean gradient.

    $$M_{\text{snip}} = \Big| \frac{1}{N} \sum_n \theta^\top \nabla_\theta L(x_n, y_n) \Big|$$

    over convolution and linear weights: the absolute value of plain. snip adds up absolute values instead.
    """
    return abs(plain(probe))


@register("hnas.grasp", needs=[CURVATURE], paper=f"{PAPER} (M_GraSP)")
def m_grasp(probe: Probe) -> float:
    r"""Take the size of the inner product of weights and Hessian times gradient.

    $$M_{\text{grasp}} = | \theta^\top H \nabla_\theta L |$$

    over convolution and linear weights: the absolute value of grasp.
    """
    return abs(grasp(probe))
