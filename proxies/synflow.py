"""Flow of a linearised network, without data."""

from __future__ import annotations

import torch

from .passes.needs import Backward, Forward, Gradient
from .probe import Probe
from .registry import register

FLOW = Gradient(
    Backward(Forward(init="absolute", inputs=("ones",), mode="linear", dtype=torch.float64), "ones"), of="parameters"
)


@register(
    "synflow", needs=[FLOW], paper="Tanaka et al., SynFlow, NeurIPS 2020, eq. 4; as in Abdelfattah et al., ICLR 2021"
)
def synflow(probe: Probe) -> float:
    r"""Sum weight times gradient in the network of absolute weights, fed with ones.

    $$R = \mathbb{1}^\top f_{|\theta|}(\mathbb{1}), \qquad
    \text{synflow} = \sum_l \sum_{w \in W_l} \Big| |w| \, \frac{\partial R}{\partial |w|} \Big|$$

    over convolution and linear weights. Every batch norm is the identity; with it on, the score loses its meaning (rank
    correlation .16 instead of .78 on NAS-Bench-201). float64 throughout: values reach 1e44 and overflow float32. The
    score is the plain sum, not its logarithm; ranks are the same.
    """
    return sum(float((weight * gradient).abs().sum()) for weight, gradient in probe.weights_and_gradients(FLOW))


WITH_NORMS = Gradient(
    Backward(Forward(init="absolute", inputs=("ones",), mode="train", dtype=torch.float64), "ones"), of="parameters"
)


@register(
    "synflow.bn", needs=[WITH_NORMS], paper="Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021"
)
def synflow_with_norms(probe: Probe) -> float:
    r"""Compute synflow with batch norm left in, in train mode on the one image of ones.

    $$\sum_l \sum_{w \in W_l} \Big| |w| \, \frac{\partial R}{\partial |w|} \Big|$$

    Kept for comparison: the norm undoes what synflow measures.
    """
    pairs = probe.weights_and_gradients(WITH_NORMS)
    return sum(float((weight * gradient).abs().sum()) for weight, gradient in pairs)
