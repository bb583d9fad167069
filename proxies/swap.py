"""SWAP: the number of patterns that the images draw on the ReLU units of the network."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .params import params
from .passes import PARAMETERS, Forward, Tap, Tapped
from .passes.taps import Place, relus
from .registry import reads, register

#: Number of images whose bits one integer holds.
_WORD = 62


def patterns_of(place: Place, activation: Tensor) -> Tensor | None:
    """Return the on/off patterns of the units of a feature map over the images, `(units, words)` int64."""
    if activation.ndim != 4:
        return None
    on = (activation > 0).permute(0, 2, 3, 1).flatten(1)
    words = []
    for start in range(0, len(on), _WORD):
        word = torch.zeros_like(on[0], dtype=torch.int64)
        for image in reversed(on[start : start + _WORD].unbind()):
            word.mul_(2).add_(image)
        words.append(word)
    return torch.stack(words, 1)


def distinct(patterns: Tensor) -> int:
    """Count the distinct rows of `(units, words)` int64, word by word; `torch.unique` of rows takes far longer."""
    first, *others = patterns.unbind(1)
    for word in others:
        first, second = (torch.unique(words, return_inverse=True)[1] for words in (first, word))
        first = first * len(first) + second
    return len(torch.unique(first))


PATTERNS = Tap(Forward(init="gaussian", graph=False), at=relus, reduce=patterns_of)


def _saturated(value: float, images: int) -> str:
    return (
        f"all 2^{images} patterns occur, which is the most that {images} images can draw"
        if value >= 2.0**images
        else ""
    )


@register("swap", note=_saturated, paper="Peng et al., SWAP-NAS, ICLR 2024, definition 3.3", batch_size=16)
def swap(patterns: Tapped = reads(PATTERNS)) -> float:
    r"""Count the distinct on/off patterns that the images draw on single ReLU units.

    $$\text{swap} = \left| \{ (1[a_u(x_1) > 0], \dots, 1[a_u(x_N) > 0]) : u \} \right|$$

    Here u are the units of all ReLU feature maps. Weights are drawn from N(0, 1), and batch norm is in train mode. The
    score is at most $2^N$, so small batches saturate. There is one draw of weights per seed; the authors average 32.
    """
    found = [codes for _, codes in patterns if codes is not None]
    if not found:
        raise NotApplicableError("the network has no ReLU on a feature map")
    return float(distinct(torch.cat(found)))


@register(
    "swap.regularised",
    paper="Peng et al., SWAP-NAS, ICLR 2024, definition 3.5",
    tuned_on="NAS-Bench-201, whose sizes the target suits",
    batch_size=16,
)
def swap_regularised(
    patterns: Tapped = reads(PATTERNS),
    parameters: dict[str, Tensor] = reads(PARAMETERS),
    mu: float = 1500.0,
    sigma: float = 1e6,
) -> float:
    r"""Weight swap by how near the size of the network is to a target size.

    $$\text{swap} \cdot \exp\big( -(P - \mu)^2 / \sigma \big)$$

    Here P is the number of parameters in thousands. The authors choose $\mu$ and $\sigma$ for each search space (25 to
    40 for networks of one thin cell), and name none for full networks. The defaults here are 1,500 and a million. They
    suit networks of up to 1.5 million parameters, for which the factor grows with size.
    """
    return swap(patterns) * math.exp(-((params(parameters) / 1e3 - mu) ** 2) / sigma)
