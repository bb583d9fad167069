"""NASWOT: how differently images switch the ReLUs of the network."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .passes import DATA, Forward, Operations, Tap, Tapped
from .passes.taps import Place, of_each_image, relus
from .registry import reads, register


def called_relu(operations: Operations) -> Sequence[Place]:
    """Return the names of the modules whose class name contains "ReLU", containers included, as in several codes.

    Raises:
        NotApplicableError: The network has no such module.
    """
    modules = operations.root.module.named_modules()
    if found := tuple(name for name, module in modules if "ReLU" in type(module).__name__):
        return found
    raise NotApplicableError("the network lacks a module called ReLU")


def agreement(place: Place, activation: Tensor) -> Tensor:
    """Return for each two images the number of units that are on for both or off for both, `(N, N)` float64."""
    flat = (activation.permute(0, 2, 3, 1) if activation.ndim == 4 else activation).flatten(1)
    # Written as numbers at once: a comparison that makes truth values, and their conversion, take ten times as long.
    on = torch.gt(flat, 0, out=torch.empty(flat.shape, dtype=torch.float32, device=flat.device))
    # X X' + (1 - X)(1 - X)' with one product instead of two; counts below 2^24 are exact in float32.
    both = on @ on.T
    active = both.diagonal()
    return (2 * both + (flat.shape[1] - active[:, None] - active[None, :])).double()


CODES = Tap(DATA, at=relus, reduce=agreement)
CODES_BY_NAME = Tap(DATA, at=called_relu, reduce=agreement, side="input")
EVAL = Forward(mode="eval", graph=False)
EVAL_CODES = Tap(EVAL, at=relus, reduce=agreement)


@register(
    "naswot",
    paper="Mellor et al., Neural Architecture Search without Training, ICML 2021, eq. 2",
    least_images=2,
)
def naswot(codes: Tapped = reads(CODES)) -> float:
    r"""Measure how differently the images switch the ReLUs of the network on and off.

    $$K_{ij} = N_A - d_H(c_i, c_j), \qquad \text{naswot} = \log |\det K|$$

    Here $c_i$ is the on/off pattern of all $N_A$ ReLU units for image i, and $d_H$ is the Hamming distance. Batch norm
    is in train mode. K is an exact integer matrix, and its determinant is float64. The score is `-inf` if two images
    have the same pattern.

    Deviation: the authors choose modules by the letters "ReLU" in the class name. This also finds the ReLU-Conv-BN
    containers of the benchmark and counts every ReLU but the last twice. Here each ReLU counts once.
    """
    kernel = torch.stack(of_each_image(codes)).sum(0)
    if (kernel.triu(1) == kernel[0, 0]).any():  # equal rows, of which elimination may leave round-off
        return -math.inf
    return float(torch.linalg.slogdet(kernel).logabsdet)


@register("naswot.eval", paper="naswot, with batch norm in eval mode", least_images=2)
def naswot_in_eval_mode(codes: Tapped = reads(EVAL_CODES)) -> float:
    r"""Compute naswot in eval mode, where batch norm uses its running statistics (0 and 1 in a new network).

    $$\log |\det K|$$
    """
    return naswot(codes)


@register(
    "naswot.as_released",
    paper="Mellor et al., ICML 2021, as their code counts",
    least_images=2,
)
def naswot_as_released(codes: Tapped = reads(CODES_BY_NAME)) -> float:
    r"""Compute naswot at every module whose class name contains "ReLU", as the released code does.

    $$\log |\det (K_{\text{ReLU}} + K_{\text{containers}})|$$

    On the benchmark's networks this also finds the ReLU-Conv-BatchNorm containers. The input of a container is the
    input of its ReLU, so every ReLU but the last counts twice.
    """
    return naswot(codes)
