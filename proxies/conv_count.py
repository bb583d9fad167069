"""The number of convolutions."""

from __future__ import annotations

from .passes import OPERATIONS, Operations
from .registry import reads, register


@register("conv_count", paper="structural baseline")
def conv_count(operations: Operations = reads(OPERATIONS)) -> float:
    r"""Count the convolutions of the network.

    $$|\{l : l \text{ is a convolution}\}|$$

    Raises:
        NotApplicableError: A product cannot be seen, or a convolution runs for a part of the images.
    """
    operations.covered("products", "the proxy counts all convolutions")
    return float(len(operations.for_all_images(operations.of_kinds("convolution"))))
