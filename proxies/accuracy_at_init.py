"""What an untrained network gets right by chance."""

from __future__ import annotations

from .passes.needs import DATA
from .probe import Probe
from .registry import register


@register("accuracy_at_init", needs=[DATA], paper="baseline", labels=True)
def accuracy_at_init(probe: Probe) -> float:
    r"""Take the share of images whose label has the largest logit.

    $$\frac{1}{N} \left| \{ n : \arg\max_c f_c(x_n) = y_n \} \right|$$

    Between 0 and 1, batch norm in train mode. A multiple of 1/N, so ties are many.
    """
    return float((probe.trace(DATA).outputs[0].argmax(1) == probe.labels()).double().mean())
