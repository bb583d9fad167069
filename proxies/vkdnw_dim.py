"""The number of parameter tensors."""

from __future__ import annotations

from .probe import Probe
from .registry import register


@register("vkdnw_dim", paper="Tybl & Neumann, VKDNW, ICLR 2025: the count that its entropy breaks ties of")
def vkdnw_dim(probe: Probe) -> float:
    r"""Count the parameter tensors of the network.

    $$\aleph = |\{\theta\}|$$
    """
    return float(sum(1 for _ in probe.net.parameters()))
