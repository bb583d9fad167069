"""The size of the gradient."""

from __future__ import annotations

from .passes import LOSS
from .probe import Probe
from .registry import register


@register(
    "grad_norm", needs=[LOSS], paper="Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021, sec. 3.2"
)
def grad_norm(probe: Probe) -> float:
    r"""Sum the L2 norms of the loss gradients of convolution and linear weights.

    $$\text{grad\_norm} = \sum_l \left\lVert \frac{\partial L}{\partial W_l} \right\rVert_2$$

    L is the mean cross entropy, batch norm in train mode. A sum of norms over layers, as the authors' code has it, not
    the global norm of the paper's text. A layer that no path reaches adds zero.
    """
    return sum(float(gradient.norm()) for _, gradient in probe.weights_and_gradients(LOSS))
