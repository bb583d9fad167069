"""The number of ReLUs."""

from __future__ import annotations

from .passes import OPERATIONS, Operations
from .registry import reads, register


@register("relu_count", paper="structural baseline")
def relu_count(operations: Operations = reads(OPERATIONS)) -> float:
    r"""Count the ReLUs of the network.

    $$|\{l : l \text{ is a ReLU}\}|$$

    Raises:
        NotApplicableError: A ReLU cannot be seen, or runs for a part of the images.
    """
    operations.covered("ReLUs", "the proxy counts all ReLUs")
    return float(len(operations.for_all_images(call for call in operations.running if call.relu)))
