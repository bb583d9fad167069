"""How differently a network responds to images, deeper blocks weighing more."""

from __future__ import annotations

import torch
from torch import Tensor

from .jacob_cov import correlations
from .passes.needs import LOSS, Tap, blocks, relus
from .probe import Probe
from .registry import register


def _responses(activation: Tensor, gradient: Tensor) -> Tensor:
    """Return |correlations| of images in activation and in gradient, summed `(N, N)`; what does not exist adds zero."""
    both = [correlations(t.flatten(1).double()).abs() for t in (activation, gradient)]
    return torch.stack([torch.zeros_like(m) if m.isnan().any() else m for m in both]).sum(0)


RESPONSES = Tap(LOSS.backward, at=relus, reduce=_responses, side="input")


@register("wrcor", needs=[RESPONSES], paper="WRCor, 2025, eq. 11", least_images=2)
def wrcor(probe: Probe) -> float:
    r"""Take the log-determinant of weighted correlations of activations and of gradients.

    $$\log \Big| \det \sum_b 2^b \sum_{u \in b} \big( |R(a_u)| + |R(\partial L / \partial a_u)| \big) \Big|$$

    with $R$ `(N, N)` the correlations of images, $a_u$ what enters ReLU u, the gradient through that ReLU only, and b
    the place of its block in the network; ReLUs after the last block form one more, those before the first do not
    count. L the mean cross entropy, train mode, float64. Correlations with a constant row are left out, as the authors'
    code does.

    Deviation: their code chooses modules by the letters "ReLU" and counts the benchmark's containers too; here each
    ReLU counts once.
    """
    names = blocks(probe.net)
    place = {name: b for b, name in enumerate(names)}
    total = probe.x.new_zeros(len(probe.x), len(probe.x), dtype=torch.float64)
    seen = False
    for name, response in probe.tap(RESPONSES):
        block = next((place[b] for b in names if name == b or name.startswith(f"{b}.")), None)
        seen = seen or block is not None
        if block is not None or seen:
            total = total + 2.0 ** (len(names) if block is None else block) * response
    return float(torch.linalg.slogdet(total).logabsdet)
