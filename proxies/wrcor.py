"""WRCor: how differently the network responds to images, with more weight on deeper blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from .jacob_cov import correlations
from .passes.needs import LOSS, Tap, blocks, relus
from .probe import Probe
from .registry import register


def _responses(activation: Tensor, gradient: Tensor) -> Tensor:
    """Return |correlations| of images in activation plus those in gradient, `(N, N)`; a matrix with NaN adds zero."""
    both = [correlations(t.flatten(1).double()).abs() for t in (activation, gradient)]
    return torch.stack([torch.zeros_like(m) if m.isnan().any() else m for m in both]).sum(0)


RESPONSES = Tap(LOSS.backward, at=relus, reduce=_responses, side="input")


@register("wrcor", needs=[RESPONSES], paper="WRCor, 2025, eq. 11", least_images=2)
def wrcor(probe: Probe) -> float:
    r"""Measure how different images are in activations and gradients at the ReLUs, with more weight on deeper blocks.

    $$\log \Big| \det \sum_b 2^b \sum_{u \in b} \big( |R(a_u)| + |R(\partial L / \partial a_u)| \big) \Big|$$

    Here $R$ `(N, N)` are the correlations between images, $a_u$ is the input of ReLU u, its gradient is taken through
    that ReLU only, and b is the position of its block in the network. ReLUs after the last block form one more block;
    ReLUs before the first block do not count. L is the mean cross entropy, batch norm is in train mode, and
    correlations are float64. A correlation matrix with a constant row is left out, as in the authors' code.

    Deviation: the authors' code chooses modules by the letters "ReLU" in the class name, which counts the containers of
    the benchmark too. Here each ReLU counts once.
    """
    names = blocks(probe.net)
    total = probe.x.new_zeros(len(probe.x), len(probe.x), dtype=torch.float64)
    seen = False
    for name, response in probe.tap(RESPONSES):
        block = next((b for b, prefix in enumerate(names) if f"{name}.".startswith(f"{prefix}.")), None)
        seen = seen or block is not None
        if seen:
            total = total + 2.0 ** (len(names) if block is None else block) * response
    return float(torch.linalg.slogdet(total).logabsdet)
