"""EPE-NAS: how differently the network responds to images of one class."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .jacob_cov import correlations
from .passes import DATA, JACOBIAN, LABELS, Logits
from .registry import reads, register

EPSILON = 1e-5
MANY = 100


@register(
    "epe_nas",
    paper="Lopes et al., EPE-NAS, ICANN 2021; as in NAS-Bench-Suite-Zero",
    least_images=2,
)
def epe_nas(
    gradient: Tensor = reads(JACOBIAN), labels: Tensor = reads(LABELS), logits: Tensor = reads(Logits(DATA))
) -> float:
    r"""Compare the input gradients of images of the same class by their correlations.

    $$s_c = \sum_{ij} \log(|R_c|_{ij} + 10^{-5}), \qquad \text{epe\_nas} = \sum_c |s_c|$$

    Here $R_c$ are the row correlations of the input gradients (see jacob_cov) of the images labelled c; a single image
    has $R_c = 1$. With more than 100 classes, $s_c$ is divided by the number of entries of $R_c$, and the score is the
    mean over classes of $\sum_{c'} |s_c - s_{c'}|$. The score is NaN if a class has several images and the gradient of
    one of them is constant.
    """
    jacobian = gradient.flatten(1).double()
    classes = logits.shape[1]
    sums = [_class_sum(jacobian[labels == c], mean=classes > MANY) for c in torch.unique(labels)]
    if any(math.isnan(s) for s in sums):
        return math.nan
    if classes <= MANY:
        return sum(abs(s) for s in sums)
    return sum(abs(a - b) for a in sums for b in sums) / len(sums)


def _class_sum(rows: Tensor, *, mean: bool) -> float:
    # The reference takes 1 for the only image of a class, even where its gradient is constant.
    matrix = correlations(rows) if len(rows) > 1 else torch.ones(1, 1, dtype=rows.dtype)
    total = float((matrix.abs() + EPSILON).log().sum())
    return total / matrix.numel() if mean else total
