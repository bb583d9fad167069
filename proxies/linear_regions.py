"""TE-NAS: the number of linear regions of a thin copy of the network."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .passes.inputs import CROP_SIZE
from .passes.needs import Forward, Tap, relus
from .probe import Probe
from .registry import register


def _codes(activation: Tensor) -> Tensor:
    return (activation > 0).flatten(1)


CODES = Tap(Forward(init="thin", inputs=("crops",), graph=False), at=relus, reduce=_codes)


@register("linear_regions", needs=[CODES], paper="Chen et al., TE-NAS, ICLR 2021")
def linear_regions(probe: Probe) -> float:
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
    try:
        codes = [code for _, code in probe.tap(CODES)]
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # shapes that do not fit
        raise NotApplicableError(f"the network does not take images of {CROP_SIZE} pixels ({error})") from error
    return float(len(torch.unique(torch.cat(codes, 1), dim=0)))
