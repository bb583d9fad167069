"""How steadily expressivity grows with depth."""

from __future__ import annotations

import math
from itertools import pairwise

from .az_expressivity import NOISE, entropies, entropy_taps
from .passes.needs import Forward
from .probe import Probe
from .registry import register


@register("az_progressivity", needs=entropy_taps(NOISE), paper="Lee & Ham, AZ-NAS, CVPR 2024")
def az_progressivity(probe: Probe, forward: Forward = NOISE) -> float:
    r"""Take the smallest gain in entropy from one feature map to the next.

    $$\min_l \, (s_{l+1} - s_l)$$

    with s as in az_expressivity. Can be negative. NaN where features are constant; the authors write minus infinity.

    Raises:
        NotApplicableError: The network is no sequence of blocks with feature maps.
    """
    gains = [after - before for before, after in pairwise(entropies(probe, forward))]
    return math.nan if any(map(math.isnan, gains)) else min(gains)
