"""How differently a network answers to images of one class."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .jacob_cov import correlations
from .passes.needs import JACOBIAN
from .probe import Probe
from .registry import register

EPSILON = 1e-5
MANY = 100


@register(
    "epe_nas",
    needs=[JACOBIAN],
    paper="Lopes et al., EPE-NAS, ICANN 2021; as in NAS-Bench-Suite-Zero",
    labels=True,
    least_images=2,
)
def epe_nas(probe: Probe) -> float:
    r"""Add up the correlations of the input gradients of images of one class.

    $$s_c = \sum_{ij} \log(|R_c|_{ij} + 10^{-5}), \qquad \text{epe\_nas} = \sum_c |s_c|$$

    with $R_c$ the row correlations of the input gradients (see jacob_cov) of the images labelled c; a single image has
    $R_c = 1$. With more than 100 classes, s is divided by the number of entries and the score is the mean over classes
    of $\sum_{c'} |s_c - s_{c'}|$. NaN where one of several images of a class has no gradient.
    """
    labels = probe.labels(JACOBIAN.backward.forward)
    jacobian = probe.input_gradient(JACOBIAN).flatten(1).double()
    classes = probe.trace(JACOBIAN.backward.forward).outputs[0].shape[1]
    sums = [_class_sum(jacobian[labels == c], mean=classes > MANY) for c in torch.unique(labels)]
    if any(math.isnan(s) for s in sums):
        return math.nan
    if classes <= MANY:
        return sum(abs(s) for s in sums)
    return sum(abs(a - b) for a in sums for b in sums) / len(sums)


def _class_sum(rows: Tensor, *, mean: bool) -> float:
    # The correlation of a row with itself is one even where it is constant and alone: so the reference has it.
    matrix = correlations(rows) if len(rows) > 1 else torch.ones(1, 1, dtype=rows.dtype)
    total = float((matrix.abs() + EPSILON).log().sum())
    return total / matrix.numel() if mean else total
