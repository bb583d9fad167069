"""GraSP: how removing a weight changes the flow of gradients."""

from __future__ import annotations

from .passes import DATA, HessianProduct, LayerGradients, Layers
from .passes.objectives import CROSS_ENTROPY
from .registry import reads, register

#: Weights and the Hessian of the loss times its gradient.
CURVATURE = LayerGradients(HessianProduct(DATA, CROSS_ENTROPY))


@register("grasp", version=2, paper="Wang et al., GraSP, ICLR 2020, eq. 8; sign as in Abdelfattah et al., ICLR 2021")
def grasp(layers: Layers = reads(CURVATURE)) -> float:
    r"""Sum over weights how much the flow of gradients would change if the weight were removed.

    $$\text{grasp} = -\sum_l \sum_{w \in W_l} w \, (H g)_w$$

    The sum is over convolution and linear weights. Here g is the gradient of the mean cross entropy with respect to
    those weights, and H its Hessian. Batch norm is in train mode, and the temperature is 1.

    Deviation: the authors differentiate $g^\top \nabla_\theta L$. Here H g is the gradient of the derivative of the
    loss along g, wherever the operations of the network allow it: the same value, with other round-off, in less time.
    It takes four to five forward-backwards, of which the gradient is one.
    """
    return -sum(float((weight * product).sum()) for weight, product in layers)
