"""GradSign: how far images agree on the sign of the gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from .fisher_trace import LOSS_PER_IMAGE
from .passes import OfEach
from .registry import reads, register


def _signs(gradients: dict[str, Tensor]) -> Tensor:
    """Return the signs of the gradients of all weights, summed over images, `(1, P)`."""
    signs = [g.sign().sum(0).flatten() for g in gradients.values()]
    return torch.cat(signs)[None]


SIGNS = OfEach(LOSS_PER_IMAGE, _signs, of="layers")


@register("gradsign", paper="Zhang & Jia, GradSign, ICLR 2022")
def gradsign(signs: Tensor = reads(SIGNS)) -> float:
    r"""Average over weights how many images agree on the sign of the gradient.

    $$\operatorname{mean}_w \Big| \sum_n \operatorname{sign} \frac{\partial L(x_n, y_n)}{\partial w} \Big|$$

    The mean is over convolution and linear weights, and lies between 0 and N. Batch norm is in train mode and
    normalises each image by its own statistics. This is the same as one image at a time, as the code of the AZ-NAS
    authors runs it. The authors released this mean beside zero-cost-nas, and the sum, which is gradsign.sum, beside
    the code of NASWOT. The mean does not rank by size, and the published coefficients are near those of the sum.

    Raises:
        NotApplicableError: There are no labels, or a batch norm sees a single value per image.
    """
    return float(signs.sum(0).abs().double().mean())


@register("gradsign.sum", paper="Zhang & Jia, GradSign, ICLR 2022")
def gradsign_sum(signs: Tensor = reads(SIGNS)) -> float:
    r"""Add up over weights how many images agree on the sign of the gradient.

    $$\sum_w \Big| \sum_n \operatorname{sign} \frac{\partial L(x_n, y_n)}{\partial w} \Big|$$

    The terms are those of gradsign, so the score grows with the number of weights. The authors sum in their code for
    the NASWOT spaces, and take the mean, which is gradsign, in their code for zero-cost-nas.

    Raises:
        NotApplicableError: There are no labels, or a batch norm sees a single value per image.
    """
    return float(signs.sum(0).abs().double().sum())
