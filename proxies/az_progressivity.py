"""Progressivity of AZ-NAS: how steadily expressivity grows with depth."""

from __future__ import annotations

import math
from itertools import pairwise

from .az_expressivity import OUTPUTS, STEM, entropies
from .passes import Tapped
from .registry import reads, register


@register("az_progressivity", paper="Lee & Ham, AZ-NAS, CVPR 2024")
def az_progressivity(stem: Tapped = reads(STEM), outputs: Tapped = reads(OUTPUTS)) -> float:
    r"""Take the smallest gain in expressivity from one block to the next.

    $$\min_l \, (s_{l+1} - s_l)$$

    Here $s_l$ is the entropy of feature map l, as in az_expressivity. The score can be negative. It is NaN if the
    features of a block are constant; the authors' code gives minus infinity there.

    Raises:
        NotApplicableError: The network has no sequence of blocks, or fewer than two feature maps.
    """
    gains = [after - before for before, after in pairwise(entropies(stem, outputs))]
    return math.nan if any(map(math.isnan, gains)) else min(gains)
