"""The number of parameters, the baseline that every other proxy has to beat."""

from __future__ import annotations

from .probe import Probe
from .registry import register


@register("params", paper="baseline; NAS-Bench-Suite-Zero (Krishnakumar et al., NeurIPS 2022), section 3")
def params(probe: Probe) -> float:
    r"""Count the parameters of the network, batch norm included.

    $$\text{params} = \sum_p |p|$$

    The unit is one parameter, not a million. The count equals the benchmark's own table on every NAS-Bench-201 network.

    Example:
        >>> from zcbench.proxies.probe import Probe
        >>> import torch
        >>> params(Probe(torch.nn.Linear(3, 2), torch.zeros(1, 3)))
        8.0
    """
    return float(sum(parameter.numel() for parameter in probe.net.parameters()))
