"""How many linear regions a thin copy of the network has around the images."""

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
    r"""Count the distinct patterns of all ReLUs over small pieces of the images.

    $$\left| \{ (1[a_u(x) > 0])_u : x \} \right|$$

    over 1,000 random crops of 4 x 4 pixels, in a copy of the network whose every channel count is divided by that of
    the first convolution, Kaiming fan-out weights, train mode. At most 1,000; at full width every crop has a pattern
    of its own, which is why the authors take a thin network too.

    Deviation: their thin network has one cell a stage and no stem, on crops of 3 x 3 and one channel, 3,000 of them;
    this one keeps the depth and the stem of the network it is given. Their count in half precision overflows where more
    than 65,504 units are on.

    Raises:
        NotApplicableError: The network cannot be made thin, see `inits.thin`, or has no ReLU.
    """
    try:
        codes = [code for _, code in probe.tap(CODES)]
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # shapes that do not fit
        raise NotApplicableError(f"the network does not take images of {CROP_SIZE} pixels ({error})") from error
    return float(len(torch.unique(torch.cat(codes, 1), dim=0)))
