"""The number of multiply-accumulates, a baseline."""

from __future__ import annotations

from .operations.calls import IMAGES
from .passes import OPERATIONS, Operations
from .registry import reads, register


@register("macs", paper="baseline; counted as NAS-Bench-201 (Dong & Yang, ICLR 2020) counts its FLOPs")
def macs(operations: Operations = reads(OPERATIONS)) -> float:
    r"""Count the multiply-accumulates of convolutions, linear maps and other matrix products for one image.

    $$\text{macs} = \sum_l |y_l| \left( \frac{C_l}{g_l} k_l^2 + [b_l] \right)$$

    Here $|y_l|$ is the number of scalars in the output of layer l for one image. Each scalar is a sum over
    $C_l k_l^2 / g_l$ inputs, and $[b_l]$ is one if the layer has a bias. For a transposed convolution, every scalar of
    the input meets the weights of its channel. Attention has two products besides its projections. Norms, activations
    and pooling do not count, as in the benchmark. The unit is one multiply-accumulate, not a million; FLOPs would be
    twice as many.

    Raises:
        NotApplicableError: A product ran that no rule covers.
    """
    operations.covered("products", "the proxy counts all products")
    return sum(call.products + call.additions for call in operations.running) / IMAGES
