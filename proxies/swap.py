"""How many patterns the images draw on a network's ReLUs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .passes.needs import Forward, Tap, relus
from .probe import Probe
from .registry import register

#: Bits of one integer that hold one image each.
_WORD = 62


def _patterns(activation: Tensor) -> Tensor | None:
    """Return the distinct on/off patterns over images of the units of a feature map, `(P, words)` int64."""
    if activation.ndim != 4:
        return None
    on = (activation > 0).permute(0, 2, 3, 1).flatten(1)
    words = []
    for start in range(0, len(on), _WORD):
        part = on[start : start + _WORD].long()
        words.append((part << torch.arange(len(part), device=part.device)[:, None]).sum(0))
    distinct: Tensor = torch.unique(torch.stack(words, 1), dim=0)
    return distinct


PATTERNS = Tap(Forward(init="gaussian", graph=False), at=relus, reduce=_patterns)


@register("swap", needs=[PATTERNS], paper="Peng et al., SWAP-NAS, ICLR 2024, definition 3.3", batch_size=16)
def swap(probe: Probe, patterns: Tap = PATTERNS) -> float:
    r"""Count the distinct patterns that the images draw on single ReLU units.

    $$\text{swap} = \left| \{ (1[a_u(x_1) > 0], \dots, 1[a_u(x_N) > 0]) : u \} \right|$$

    over the units u of all ReLU feature maps, Gaussian weights, batch norm in train mode. At most $2^N$, so small
    batches saturate. One draw of weights a seed; the authors average 32.
    """
    found = [codes for _, codes in probe.tap(patterns) if codes is not None]
    if not found:
        raise NotApplicableError("the network has no ReLU on a feature map")
    return float(len(torch.unique(torch.cat(found), dim=0)))


@register("swap.regularised", needs=[PATTERNS], paper="Peng et al., SWAP-NAS, ICLR 2024, definition 3.5", batch_size=16)
def swap_regularised(probe: Probe, mu: float = 1500.0, sigma: float = 1e6, patterns: Tap = PATTERNS) -> float:
    r"""Weigh swap by how near the size of the network is to a wanted one.

    $$\text{swap} \cdot \exp\big( -(P - \mu)^2 / \sigma \big)$$

    with P the parameters in thousands. The authors choose $\mu$ and $\sigma$ for each search space (25 to 40 for
    networks of one thin cell), and name none for full networks; here they are 1,500 and a million, for networks of up
    to 1.5 million parameters, among which the factor grows with size.
    """
    size = sum(parameter.numel() for parameter in probe.net.parameters()) / 1e3
    return swap(probe, patterns) * math.exp(-((size - mu) ** 2) / sigma)
