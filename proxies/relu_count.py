"""The number of ReLUs."""

from __future__ import annotations

from .passes import OPERATIONS, Operations
from .registry import reads, register


@register("relu_count", paper="structural baseline")
def relu_count(operations: Operations = reads(OPERATIONS)) -> float:
    r"""Count the ReLUs of the network.

    $$|\{l : l \text{ is a ReLU}\}|$$
    """
    operations.covered("ReLUs", "the proxy counts all ReLUs")
    return float(sum(call.relu for call in operations.running))
