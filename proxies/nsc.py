"""NSC: how much information random weights of the network's shapes would pass on."""

from __future__ import annotations

import math

from ..errors import NotApplicableError
from .passes import OPERATIONS, Operations
from .registry import reads, register


@register("nsc", paper="Zhu, Zhao & Lu, Neural Spectral Capacity, arXiv 2609.23087, 2026 (from the paper's formula)")
def nsc(operations: Operations = reads(OPERATIONS)) -> float:
    r"""Add up, over the weight matrices, the capacity that a random matrix of their shape has.

    $$\sum_l \mathbb{E} \ln\det(I + W_l^\top W_l), \quad
    \mathbb{E} \ln\det(I + W^\top W) \to \min(m, n) \int \ln(1 + \max(m, n) \, s^2 \lambda) \, d\mu_\gamma(\lambda)$$

    Only shapes are read. A convolution is a matrix of $m = c_{out}$ rows and $n = c_{in} k^2$ columns, and with groups
    it is one such matrix for each group. Entries have the variance $s^2 = 2 / (m + n)$ of Xavier's initialisation, and
    $\mu_\gamma$ is the law of Marchenko and Pastur for $\gamma = \min(m, n) / \max(m, n)$. The integral has a closed
    form (Verdú and Shamai, 1999). The paper takes the projections of attention by heads. Heads cannot be told from
    weights, so networks with attention are not scored.

    Raises:
        NotApplicableError: The network has attention, or a weight that cannot be seen.
    """
    operations.covered("products", "the proxy reads the shapes of all weights")
    if any(True for _ in operations.of_kinds("product")):
        raise NotApplicableError("activations are multiplied, as in attention, whose heads cannot be told apart")
    if not operations.weights:
        raise NotApplicableError("the network has no convolution or linear map with a weight")
    score = 0.0
    for layer in operations.weights:
        call = layer.calls[0]
        rows, *rest = call.weight_shape
        score += call.groups * capacity(rows // call.groups, math.prod(rest))
    return score


def capacity(rows: int, columns: int) -> float:
    r"""Return the limit of $\mathbb{E} \ln\det(I + W^\top W)$, with entries of variance 2 / (rows + columns).

    With $a$ the larger and $b$ the smaller side, $\gamma = b / a$, $\rho = 2a / (a + b)$ and
    $F = (\sqrt{\rho (1 + \sqrt\gamma)^2 + 1} - \sqrt{\rho (1 - \sqrt\gamma)^2 + 1})^2$, it is
    $b \ln(1 + \rho - F / 4) + a \ln(1 + \rho \gamma - F / 4) - a F / (4 \rho)$.
    """
    larger, smaller = max(rows, columns), min(rows, columns)
    ratio, noise = smaller / larger, 2 * larger / (larger + smaller)
    root = math.sqrt(ratio)
    f = (math.sqrt(noise * (1 + root) ** 2 + 1) - math.sqrt(noise * (1 - root) ** 2 + 1)) ** 2
    return (
        smaller * math.log(1 + noise - f / 4) + larger * math.log(1 + noise * ratio - f / 4) - larger * f / (4 * noise)
    )
