"""Multiply-accumulates of one image, the other baseline."""

from __future__ import annotations

from torch import Tensor

from .passes.needs import DATA, Tap, layers
from .probe import Probe
from .registry import register


def _scalars_per_image(activation: Tensor) -> int:
    return activation[0].numel()


OUTPUTS = Tap(DATA, at=layers, reduce=_scalars_per_image)


@register("macs", needs=[OUTPUTS], paper="baseline; counted as NAS-Bench-201 (Dong & Yang, ICLR 2020) counts its FLOPs")
def macs(probe: Probe) -> float:
    r"""Count multiply-accumulates of convolutions and linear layers for one image.

    $$\text{macs} = \sum_l |y_l| \left( \frac{C_l}{g_l} k_l^2 + [b_l] \right)$$

    with $|y_l|$ the scalars of layer l's output for one image, $C_l k_l^2 / g_l$ the inputs that each is a sum of and
    $[b_l]$ one if the layer has a bias. As the benchmark counts, norms, activations and pooling are free. The unit is
    one multiply-accumulate, not a million; FLOPs would be twice as many.
    """
    total = 0
    for name, scalars in probe.tap(OUTPUTS):
        layer = probe.net.get_submodule(name)
        weight, bias = layer.get_parameter("weight"), layer._parameters["bias"]
        total += scalars * (weight[0].numel() + (bias is not None))
    return float(total)
