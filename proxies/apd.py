"""APD: how evenly batch norms spread what they give over their channels, times how evenly weights are spread."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .passes import DATA, OPERATIONS, Call, Operations, Tap, Tapped, Weights
from .passes.taps import Place
from .registry import reads, register


def batch_norms(operations: Operations) -> Sequence[Call]:
    """Return the batch norms.

    Raises:
        NotApplicableError: The network has no batch norm, or a norm that cannot be seen.
    """
    operations.covered("norms", "the proxy reads all batch norms")
    if found := [call for call in operations.of_kinds("norm") if call.name == "batch_norm"]:
        return found
    raise NotApplicableError("the network has no batch norm")


def stable_rank(place: Place, activation: Tensor) -> Tensor:
    """Return the stable rank of an output `(N, C, ...)` as a matrix `(C, N ...)`; 0 for zeros."""
    rows = activation.double().movedim(1, 0).flatten(1)
    gram = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    total = gram.trace()
    return torch.where(total > 0, total / torch.linalg.eigvalsh(gram)[-1], 0.0)


def spread(weight: Tensor) -> float:
    """Return the L1 norm of a weight over its L2 norm; 0 for zeros."""
    norm = weight.norm()
    return float(weight.abs().sum() / norm) if norm > 0 else 0.0


RANKS = Tap(DATA, at=batch_norms, reduce=stable_rank)


@register(
    "apd",
    paper="Revolutionizing Training-Free NAS (APD), NeurIPS 2025 (from the paper's formula, no reference code)",
    tuned_on="networks that are not known here: a search of programs found it",
)
def apd(
    ranks: Tapped = reads(RANKS),
    weights: dict[str, Tensor] = reads(Weights()),
    operations: Operations = reads(OPERATIONS),
) -> float:
    r"""Multiply the stable ranks of all batch norm outputs by how evenly the weights of convolutions are spread.

    $$\Big( \sum_b \frac{\lVert Y_b \rVert_F^2}{\lVert Y_b \rVert_2^2} \Big) \cdot
    \Big( \sum_l \frac{\lVert W_l \rVert_1}{\lVert W_l \rVert_2} \Big)$$

    Here $Y_b$ is the output of batch norm b on the images, $\lVert \cdot \rVert_2$ of a matrix is its largest singular
    value, and $W_l$ is the weight of convolution l as a vector. Batch norm is in train mode. Both ratios are float64.
    A ratio lies between 1 and the number of channels for $Y_b$, and between 1 and the root of the number of weights for
    $W_l$. The higher it is, the more alike the singular values or the weights are. A language model found the formula.

    Choices: the formula does not say how an output `(N, C, H, W)` becomes a matrix. Here it is $Y_b$ `(C, N H W)`, one
    row for each channel, so the ratio says in how many directions the channels vary. An output or a weight of zeros
    adds 0, since its rank is 0. A weight that several convolutions use counts once.

    Raises:
        NotApplicableError: The network has no batch norm or no convolution, or one of them cannot be seen.
    """
    convolutions = [layer.name for layer in operations.weights if any(c.kind == "convolution" for c in layer.calls)]
    if not convolutions:
        raise NotApplicableError("the network has no convolution with a weight")
    return sum(float(rank) for _, rank in ranks) * sum(spread(weights[name]) for name in convolutions)
