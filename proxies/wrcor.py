"""WRCor: how differently the network responds to images, with more weight on deeper blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .jacob_cov import correlations
from .passes import LOSS_PASS, OPERATIONS, Call, Operations, Tap, Tapped
from .passes.taps import Place, of_each_image, relus
from .registry import reads, register


def _responses(place: Place, activation: Tensor, gradient: Tensor) -> Tensor:
    """Return |correlations| of images in activation plus those in gradient, `(N, N)`; a matrix with NaN adds zero."""
    both = [correlations(t.flatten(1).double()).abs() for t in (activation, gradient)]
    return torch.stack([torch.where(m.isnan().any(), 0.0, m) for m in both]).sum(0)


RESPONSES = Tap(LOSS_PASS, at=relus, reduce=_responses, side="input")


@register("wrcor", paper="WRCor, 2025, eq. 11", least_images=2)
def wrcor(responses: Tapped = reads(RESPONSES), operations: Operations = reads(OPERATIONS)) -> float:
    r"""Measure how different images are in activations and gradients at the ReLUs, with more weight on deeper blocks.

    $$\log \Big| \det \sum_b 2^b \sum_{u \in b} \big( |R(a_u)| + |R(\partial L / \partial a_u)| \big) \Big|$$

    Here $R$ `(N, N)` are the correlations between images, $a_u$ is the input of ReLU u, its gradient is taken through
    that ReLU only, and b is the position of its block in the network. ReLUs after the last block form one more block;
    ReLUs before the first block do not count. L is the mean cross entropy, batch norm is in train mode, and
    correlations are float64. A correlation matrix with a constant row is left out, as in the authors' code.

    Deviation: the authors' code chooses modules by the letters "ReLU" in the class name, which counts the containers of
    the benchmark too. Here each ReLU counts once.

    Raises:
        NotApplicableError: The network has no sequence of blocks, or no ReLU in them or after them.
    """
    names = operations.blocks
    total = torch.zeros_like(of_each_image(responses)[0])
    seen = False
    for place, response in responses:
        assert isinstance(place, Call)
        block = next((b for b, prefix in enumerate(names) if f"{place.module}.".startswith(f"{prefix}.")), None)
        seen = seen or block is not None
        if seen:
            total = total + 2.0 ** (len(names) if block is None else block) * response
    if not seen:
        raise NotApplicableError("no ReLU runs in a block of the network or after one")
    return float(torch.linalg.slogdet(total).logabsdet)
