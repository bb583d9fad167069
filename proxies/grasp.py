"""GraSP: how removing a weight changes the flow of gradients."""

from __future__ import annotations

from .passes.needs import DATA, Backward, Gradient
from .probe import Probe
from .registry import register

CURVATURE = Gradient(Backward(DATA, "loss", order=2), of="parameters")


@register(
    "grasp", needs=[CURVATURE], paper="Wang et al., GraSP, ICLR 2020, eq. 8; sign as in Abdelfattah et al., ICLR 2021"
)
def grasp(probe: Probe) -> float:
    r"""Sum over weights how much the flow of gradients would change if the weight were removed.

    $$\text{grasp} = -\sum_l \sum_{w \in W_l} w \, (H g)_w$$

    The sum is over convolution and linear weights. Here g is the gradient of the mean cross entropy with respect to
    those weights, and H its Hessian. Batch norm is in train mode, and the temperature is 1. The proxy takes a backward
    pass that can be differentiated and another one through it, which cost about five forward-backwards.
    """
    return -sum(float((weight * product).sum()) for weight, product in probe.weights_and_gradients(CURVATURE))
