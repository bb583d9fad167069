"""How nearly dependent the channels of feature maps are, on one image."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .jacob_cov import correlations
from .passes.needs import Forward, Tap
from .probe import Probe
from .registry import register

CHOSEN = 8
Choose = Callable[[int, int], list[int]]


def leaves(net: nn.Module) -> tuple[str, ...]:
    """Name the modules without children."""
    return tuple(name for name, module in net.named_modules() if next(module.children(), None) is None)


def every(net: nn.Module) -> tuple[str, ...]:
    """Name all modules, containers and the network itself among them."""
    return tuple(name for name, _ in net.named_modules())


def _channel_correlations(activation: Tensor) -> Tensor:
    """Return the correlations `(C, C)` of the channels of the first image, zero where a channel is constant."""
    first = activation[0].double()
    return correlations(first.reshape(len(first), -1)).nan_to_num(0.0, 0.0, 0.0)


ONE_IMAGE = Forward(inputs=("data",), graph=False)
LEAVES = Tap(ONE_IMAGE, at=leaves, reduce=_channel_correlations)
EVERY = Tap(ONE_IMAGE, at=every, reduce=_channel_correlations)


def _smallest(matrix: Tensor) -> float:
    return float(torch.linalg.eigvalsh(matrix)[0])


@register("meco", needs=[LEAVES], paper="Jiang et al., MeCo, NeurIPS 2023", batch_size=1)
def meco(probe: Probe, maps: Tap = LEAVES) -> float:
    r"""Add up the smallest eigenvalues of the channel correlations of feature maps.

    $$\sum_l \lambda_{\min}(P_l)$$

    with $P_l$ `(C, C)` the Pearson correlations of the channels of map l on the first image, one map for every module
    without children, float64. Train mode, so batch norm takes what images are given. Where a map has more channels
    than positions, $P_l$ is singular and adds round-off only.

    Deviation: the authors hook every module, containers too, so one map counts as often as modules end in it; that is
    `meco.as_released`.
    """
    return sum(_smallest(matrix) for _, matrix in probe.tap(maps))


@register(
    "meco.as_released", needs=[EVERY], paper="Jiang et al., MeCo, NeurIPS 2023, as their code counts", batch_size=1
)
def meco_as_released(probe: Probe) -> float:
    r"""Compute meco at every module, containers and the network itself among them.

    $$\sum_m \lambda_{\min}(P_m)$$

    How modules are nested changes the value.
    """
    return meco(probe, EVERY)


@register("meco.opt", needs=[LEAVES], paper="Jiang et al., MeCo, NeurIPS 2023 (their software)", batch_size=1)
def meco_opt(probe: Probe, choose: Choose | None = None, maps: Tap = LEAVES) -> float:
    r"""Estimate meco from eight random channels of every map.

    $$\sum_l \frac{C_l}{8} \, \lambda_{\min}(P_l[S_l, S_l]), \qquad |S_l| = 8$$

    Channels are drawn by the probe's seed. A map with fewer than eight is taken whole.
    """
    if choose is None:
        draw = probe.generator("channels")

        def choose(of: int, count: int) -> list[int]:
            return torch.randperm(of, generator=draw)[:count].tolist()

    total = 0.0
    for _, matrix in probe.tap(maps):
        channels = len(matrix)
        some = choose(channels, min(CHOSEN, channels))
        total += channels / len(some) * _smallest(matrix[some][:, some])
    return total
