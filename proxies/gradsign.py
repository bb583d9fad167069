"""How far images agree on the sign of the gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from .fisher_trace import LOSS_ALONE
from .passes.needs import PerImage, layer_weights
from .probe import Probe
from .registry import register


def _signs(gradients: dict[str, Tensor]) -> Tensor:
    """Return the sum over images of the signs of all gradients of matrices and kernels, `(1, P)`."""
    signs = [g.sign().sum(0).flatten() for name, g in gradients.items() if name.endswith("weight")]
    return torch.cat(signs)[None]


SIGNS = PerImage(LOSS_ALONE, of="parameters", reduce=_signs)


@register("gradsign", needs=[SIGNS], paper="Zhang & Jia, GradSign, ICLR 2022")
def gradsign(probe: Probe) -> float:
    r"""Average over weights how many images agree on the sign of the gradient.

    $$\operatorname{mean}_w \Big| \sum_n \operatorname{sign} \frac{\partial L(x_n, y_n)}{\partial w} \Big|$$

    over convolution and linear weights. Between 0 and N. Train mode with one image at a time, as the AZ-NAS authors'
    code runs it; here images are vectorised and normalised by their own statistics, which is the same.

    Raises:
        NotApplicableError: No labels, or a batch norm of a single value an image.
    """
    sums = probe.per_image(SIGNS).sum(0).abs().double()
    sizes = {name: p.numel() for name, p in probe.net.named_parameters() if name.endswith("weight")}
    wanted = set(layer_weights(probe.net))
    parts = zip(sizes, torch.split(sums, list(sizes.values())), strict=True)
    return float(torch.cat([part for name, part in parts if name in wanted]).mean())
