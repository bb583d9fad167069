"""SynFlow: the flow through the linearised network, without data."""

from __future__ import annotations

import torch

from .passes import Backward, Forward, LayerGradients, Layers
from .passes.inputs import ONES
from .passes.objectives import SUM
from .registry import reads, register

FLOW = LayerGradients(Backward(Forward(init="absolute", inputs=(ONES,), mode="linear", dtype=torch.float64), SUM))


@register("synflow", paper="Tanaka et al., SynFlow, NeurIPS 2020, eq. 4; as in Abdelfattah et al., ICLR 2021")
def synflow(layers: Layers = reads(FLOW)) -> float:
    r"""Sum weight times gradient in the network of absolute weights fed with ones, without reading data.

    $$R = \mathbb{1}^\top f_{|\theta|}(\mathbb{1}), \qquad
    \text{synflow} = \sum_l \sum_{w \in W_l} \Big| |w| \, \frac{\partial R}{\partial |w|} \Big|$$

    The sum is over convolution and linear weights. Every batch norm is the identity. With batch norm the score loses
    its meaning: Spearman's rho on NAS-Bench-201 is .16 instead of .78. Values are float64, since they reach 1e44 and
    overflow float32. The score is the sum itself, not its logarithm; both rank networks in the same order.
    """
    return sum(float((weight * gradient).abs().sum()) for weight, gradient in layers)


WITH_NORMS = LayerGradients(Backward(Forward(init="absolute", inputs=(ONES,), dtype=torch.float64), SUM))


@register("synflow.bn", paper="Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021")
def synflow_with_norms(layers: Layers = reads(WITH_NORMS)) -> float:
    r"""Compute synflow with batch norm kept, in train mode on the single image of ones.

    $$\sum_l \sum_{w \in W_l} \Big| |w| \, \frac{\partial R}{\partial |w|} \Big|$$

    This variant is for comparison: batch norm undoes what synflow measures.
    """
    return synflow(layers)
