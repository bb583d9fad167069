"""How differently images switch a network's ReLUs."""

from __future__ import annotations

import torch
from torch import Tensor

from .passes.needs import DATA, Forward, Tap, called_relu, relus
from .probe import Probe
from .registry import register


def _agreement(activation: Tensor) -> Tensor:
    """Return the N x N float64 counts of units that are on, or off, for both images."""
    on = activation > 0
    # Columns may stand in any order, so channels-last memory is read as it lies.
    on = (on.permute(0, 2, 3, 1) if on.ndim == 4 else on).flatten(1).float()
    units, active = on.shape[1], on.sum(1)
    # X X' + (1 - X)(1 - X)' with one product instead of two; counts below 2^24 are exact in float32.
    return (2 * (on @ on.T) + (units - active[:, None] - active[None, :])).double()


CODES = Tap(DATA, at=relus, reduce=_agreement)
CODES_BY_NAME = Tap(DATA, at=called_relu, reduce=_agreement, side="input")
EVAL = Forward(mode="eval", graph=False)
EVAL_CODES = Tap(EVAL, at=relus, reduce=_agreement)


def _log_determinant(kernels: list[Tensor]) -> float:
    return float(torch.linalg.slogdet(torch.stack(kernels).sum(0)).logabsdet)


@register(
    "naswot",
    needs=[CODES],
    paper="Mellor et al., Neural Architecture Search without Training, ICML 2021, eq. 2",
    least_images=2,
)
def naswot(probe: Probe) -> float:
    r"""Take the log-determinant of the kernel of Hamming distances between ReLU codes.

    $$K_{ij} = N_A - d_H(c_i, c_j), \qquad \text{naswot} = \log |\det K|$$

    with $c_i$ the on/off pattern of all ReLUs for image i, batch norm in train mode. K is an exact integer matrix, its
    determinant float64. `-inf` where two images switch every ReLU alike.

    Deviation: the authors select modules by the letters "ReLU" in the class name, which also hits the benchmark's
    ReLU-Conv-BN containers and counts every ReLU but the last twice. Here each ReLU counts once.
    """
    return _log_determinant([kernel for _, kernel in probe.tap(CODES)])


@register("naswot.eval", needs=[EVAL_CODES], paper="naswot, with batch norm in eval mode", least_images=2)
def naswot_in_eval_mode(probe: Probe) -> float:
    r"""Compute naswot in eval mode, where batch norm uses its running statistics (0 and 1 in a new network).

    $$\log |\det K|$$
    """
    return _log_determinant([kernel for _, kernel in probe.tap(EVAL_CODES)])


@register(
    "naswot.as_released",
    needs=[CODES_BY_NAME],
    paper="Mellor et al., ICML 2021, as their code counts",
    least_images=2,
)
def naswot_as_released(probe: Probe) -> float:
    r"""Compute naswot at every module whose class name contains "ReLU".

    $$\log |\det (K_{\text{ReLU}} + K_{\text{containers}})|$$

    The authors' code chooses modules so, and on the benchmark's networks finds the ReLU-Conv-BatchNorm containers too,
    whose input is that of their ReLU: every ReLU but the last counts twice.
    """
    return _log_determinant([kernel for _, kernel in probe.tap(CODES_BY_NAME)])
