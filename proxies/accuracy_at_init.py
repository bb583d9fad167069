"""The accuracy of the untrained network."""

from __future__ import annotations

from .passes.needs import DATA
from .probe import Probe
from .registry import register


@register("accuracy_at_init", needs=[DATA], paper="baseline", labels=True)
def accuracy_at_init(probe: Probe) -> float:
    r"""Measure the share of images that the untrained network classifies correctly.

    $$\frac{1}{N} \left| \{ n : \arg\max_c f_c(x_n) = y_n \} \right|$$

    Batch norm is in train mode. The score is a multiple of 1/N between 0 and 1, so many networks tie.
    """
    return float((probe.trace(DATA).outputs[0].argmax(1) == probe.labels()).double().mean())
