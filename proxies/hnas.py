"""The criterion of HNAS, and the measures that it unifies."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .grasp import CURVATURE, grasp
from .ntk_trace import EACH, PRODUCTS, kernel, kernel_as_released, root_trace
from .passes import LOSS, OPERATIONS, Layers, Operations, Tapped
from .plain import plain
from .registry import reads, register

PAPER = "Shu et al., HNAS, NeurIPS 2022"
#: The middle of the ranges that the authors search by Bayesian optimisation: 10^c with c in [-4, 0], and [0, 5000].
MU, NU = 1e-2, 2500.0


def condition(theta: Tensor) -> float:
    """Return the largest over the smallest eigenvalue."""
    eigenvalues = torch.linalg.eigvalsh(theta)
    return float(eigenvalues[-1] / eigenvalues[0])


def _criterion(theta: Tensor, mu: float, nu: float) -> float:
    m = root_trace(theta)
    return mu * abs(m**2 - nu**2) + condition(theta) / (m + 1e-6)


@register("hnas", paper=f"{PAPER} (the criterion of its search)", direction="lower", least_images=2)
def hnas(
    gradients: dict[str, Tensor] = reads(EACH),
    operations: Operations = reads(OPERATIONS),
    mu: float = MU,
    nu: float = NU,
) -> float:
    r"""Combine the condition number of the neural tangent kernel with the distance of its trace from a target.

    $$\mu \, |M^2 - \nu^2| + \frac{\kappa}{M + 10^{-6}}$$

    Here M and the kernel are as in ntk_trace, and $\kappa$ is the largest eigenvalue of the kernel over its smallest.
    Lower is better. The authors fit $\mu$ and $\nu$ to validation accuracies; the defaults are the middle of the ranges
    that they search.
    """
    return _criterion(kernel(gradients, operations), mu, nu)


@register("hnas.as_released", paper=f"{PAPER}, as their code", direction="lower", least_images=2)
def hnas_as_released(products: Tapped = reads(PRODUCTS), mu: float = MU, nu: float = NU) -> float:
    r"""Compute hnas from the kernel of ntk_trace.as_released.

    $$\mu \, |M^2 - \nu^2| + \frac{\kappa}{M + 10^{-6}}$$
    """
    return _criterion(kernel_as_released(products), mu, nu)


@register("hnas.grad", paper=f"{PAPER} (M_Grad)")
def m_grad(layers: Layers = reads(LOSS)) -> float:
    r"""Take the L2 norm of the loss gradient of all convolution and linear weights together.

    $$M_{\text{grad}} = \Big\lVert \frac{1}{N} \sum_n \nabla_\theta L(x_n, y_n) \Big\rVert_2$$

    The weights form one vector here; grad_norm adds up the norms of layers instead.
    """
    return math.hypot(*(float(gradient.norm()) for _, gradient in layers))


@register("hnas.snip", paper=f"{PAPER} (M_SNIP)")
def m_snip(layers: Layers = reads(LOSS)) -> float:
    r"""Take the absolute value of the sum of weight times gradient.

    $$M_{\text{snip}} = \Big| \frac{1}{N} \sum_n \theta^\top \nabla_\theta L(x_n, y_n) \Big|$$

    The sum is over convolution and linear weights, so this is the absolute value of plain. snip adds up absolute values
    instead.
    """
    return abs(plain(layers))


@register("hnas.grasp", version=2, paper=f"{PAPER} (M_GraSP)")
def m_grasp(layers: Layers = reads(CURVATURE)) -> float:
    r"""Take the absolute value of the sum of weight times Hessian-gradient product.

    $$M_{\text{grasp}} = | \theta^\top H \nabla_\theta L |$$

    The sum is over convolution and linear weights, so this is the absolute value of grasp.
    """
    return abs(grasp(layers))
