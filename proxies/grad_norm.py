"""The norm of the loss gradient."""

from __future__ import annotations

import math

from torch import Tensor

from .passes import LOSS, LOSS_PASS, Layers, ParameterGradients
from .registry import reads, register


@register("grad_norm", paper="Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021, sec. 3.2")
def grad_norm(layers: Layers = reads(LOSS)) -> float:
    r"""Sum the L2 norms of the loss gradients of all convolution and linear layers.

    $$\text{grad\_norm} = \sum_l \left\lVert \frac{\partial L}{\partial W_l} \right\rVert_2$$

    L is the mean cross entropy, with batch norm in train mode. The score is a sum of norms over layers, as in the
    authors' code; the text of their paper says the norm of all gradients together. A layer without a path to the output
    adds zero.
    """
    return sum(float(gradient.norm()) for _, gradient in layers)


@register("grad_norm.all_params", paper="the gradient norm of Zen-NAS (ICCV 2021) and AZ-NAS (CVPR 2024)")
def grad_norm_of_all_parameters(gradients: dict[str, Tensor] = reads(ParameterGradients(LOSS_PASS))) -> float:
    r"""Take the L2 norm of the loss gradient of all parameters together.

    $$\sqrt{\sum_\theta \left( \frac{\partial L}{\partial \theta} \right)^2}$$

    The sum includes biases and norm layers. L is the mean cross entropy on the images, and weights are as given.
    Zen-NAS and AZ-NAS draw the weights, the images and the labels at random instead.
    """
    squares = [float(gradient.double().square().sum()) for gradient in gradients.values()]
    return math.sqrt(sum(squares))
