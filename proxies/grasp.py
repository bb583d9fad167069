"""How removing a weight changes the flow of gradients."""

from __future__ import annotations

from .passes.needs import DATA, Backward, Gradient
from .probe import Probe
from .registry import register

CURVATURE = Gradient(Backward(DATA, "loss", order=2), of="parameters")


@register(
    "grasp", needs=[CURVATURE], paper="Wang et al., GraSP, ICLR 2020, eq. 8; sign as in Abdelfattah et al., ICLR 2021"
)
def grasp(probe: Probe) -> float:
    r"""Sum minus weight times the Hessian-gradient product.

    $$\text{grasp} = -\sum_l \sum_{w \in W_l} w \, (H g)_w$$

    over convolution and linear weights, with g the gradient of the mean cross entropy and H its Hessian with respect
    to those weights, batch norm in train mode, temperature 1. Costs a backward pass that can be differentiated and
    another through it, about five forward-backwards.
    """
    return -sum(float((weight * product).sum()) for weight, product in probe.weights_and_gradients(CURVATURE))
