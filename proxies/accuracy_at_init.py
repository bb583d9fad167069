"""The accuracy of the untrained network."""

from __future__ import annotations

from torch import Tensor

from .passes import DATA, LABELS, Logits
from .registry import reads, register


@register("accuracy_at_init", paper="baseline")
def accuracy_at_init(logits: Tensor = reads(Logits(DATA)), labels: Tensor = reads(LABELS)) -> float:
    r"""Measure the share of images that the untrained network classifies correctly.

    $$\frac{1}{N} \left| \{ n : \arg\max_c f_c(x_n) = y_n \} \right|$$

    Batch norm is in train mode. The score is a multiple of 1/N between 0 and 1, so many networks tie.
    """
    return float((logits.argmax(1) == labels).double().mean())
