"""The number of multiply-accumulates, a baseline."""

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
    r"""Count the multiply-accumulates of convolution and linear layers for one image.

    $$\text{macs} = \sum_l |y_l| \left( \frac{C_l}{g_l} k_l^2 + [b_l] \right)$$

    Here $|y_l|$ is the number of scalars in the output of layer l for one image. Each scalar is a sum over
    $C_l k_l^2 / g_l$ inputs, and $[b_l]$ is one if the layer has a bias. Norms, activations and pooling do not count,
    as in the benchmark. The unit is one multiply-accumulate, not a million; FLOPs would be twice as many.
    """
    total = 0
    for name, scalars in probe.tap(OUTPUTS):
        layer = probe.net.get_submodule(name)
        weight, bias = layer.get_parameter("weight"), layer._parameters["bias"]
        total += scalars * (weight[0].numel() + (bias is not None))
    return float(total)
