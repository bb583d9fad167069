"""The number of parameters, the baseline that every other proxy has to beat."""

from __future__ import annotations

from torch import Tensor

from .passes import PARAMETERS
from .registry import reads, register


@register("params", paper="baseline; NAS-Bench-Suite-Zero (Krishnakumar et al., NeurIPS 2022), section 3")
def params(parameters: dict[str, Tensor] = reads(PARAMETERS)) -> float:
    r"""Count the parameters of the network, batch norm included.

    $$\text{params} = \sum_p |p|$$

    The unit is one parameter, not a million. The count equals the benchmark's own table on every NAS-Bench-201 network.

    Example:
        >>> import torch
        >>> params(dict(torch.nn.Linear(3, 2).named_parameters()))
        8.0
    """
    return float(sum(parameter.numel() for parameter in parameters.values()))
