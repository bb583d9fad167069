"""The number of parameter tensors."""

from __future__ import annotations

from torch import Tensor

from .passes import PARAMETERS
from .registry import reads, register


@register("vkdnw_dim", paper="Tybl & Neumann, VKDNW, ICLR 2025: the count that its entropy breaks ties of")
def vkdnw_dim(parameters: dict[str, Tensor] = reads(PARAMETERS)) -> float:
    r"""Count the parameter tensors of the network.

    $$\aleph = |\{\theta\}|$$
    """
    return float(len(parameters))
