"""Connection sensitivity with its sign."""

from __future__ import annotations

from .passes.needs import LOSS
from .probe import Probe
from .registry import register


@register(
    "plain", needs=[LOSS], paper="Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021 (code only)"
)
def plain(probe: Probe) -> float:
    r"""Sum weight times gradient, signed.

    $$\text{plain} = \sum_l \sum_{w \in W_l} w \, \frac{\partial L}{\partial w}$$

    over convolution and linear weights, L the mean cross entropy, batch norm in train mode. A convolution that feeds a
    batch norm is scale invariant, so its sum is zero but for round-off and little more than the classifier's term is
    left.
    """
    return sum(float((weight * gradient).sum()) for weight, gradient in probe.weights_and_gradients(LOSS))
