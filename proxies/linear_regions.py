"""TE-NAS: the number of linear regions of a thin copy of the network."""

from __future__ import annotations

import torch
from torch import Tensor

from .passes import Forward, Tap, Tapped
from .passes.inputs import CROPS
from .passes.taps import Place, relus
from .registry import reads, register


def _codes(place: Place, activation: Tensor) -> Tensor:
    return (activation > 0).flatten(1)


CODES = Tap(Forward(init="thin", inputs=(CROPS,), graph=False), at=relus, reduce=_codes)


@register("linear_regions", paper="Chen et al., TE-NAS, ICLR 2021")
def linear_regions(codes: Tapped = reads(CODES)) -> float:
    r"""Count the linear regions that small pieces of the images fall into, in a thin copy of the network.

    $$\left| \{ (1[a_u(x) > 0])_u : x \} \right|$$

    Here x are 1,000 random crops of 4 x 4 pixels, and a linear region is a pattern of all ReLUs u. In the thin copy of
    the network, every number of channels is divided by that of the first convolution. Weights are drawn by Kaiming
    fan-out, and batch norm is in train mode. The score is at most 1,000. At full width every crop would have its own
    pattern, which is why the authors take a thin network too.

    Deviation: the thin network of the authors has one cell per stage and no stem, and takes 3,000 crops of 3 x 3 pixels
    with one channel. Here the copy keeps the depth and the stem of the network. The authors count in half precision,
    which overflows where more than 65,504 units are on.

    Raises:
        NotApplicableError: The network has no ReLU, or cannot be made thin (see `inits.thin`).
    """
    return float(len(torch.unique(torch.cat([code for _, code in codes], 1), dim=0)))
