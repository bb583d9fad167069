"""FreeREA: synflow with damped gradients."""

from __future__ import annotations

from .passes import Layers
from .registry import reads, register
from .synflow import FLOW


@register("logsynflow", paper="Cavagnero et al., FreeREA, WACV 2023, section 3 (formula; no reference code)")
def logsynflow(layers: Layers = reads(FLOW)) -> float:
    r"""Sum weight times the logarithm of its gradient, in the network of absolute weights fed with ones.

    $$\text{logsynflow} = \sum_l \sum_{w \in W_l} |w| \, \log\left( 1 + \frac{\partial R}{\partial |w|} \right)$$

    Here R is as in synflow, every batch norm is the identity, and values are float64. This is not the logarithm of the
    sum of synflow, which would rank networks as synflow does.
    """
    return sum(float((weight * gradient.log1p()).sum()) for weight, gradient in layers)
