"""MeCo: how independent the channels of feature maps are, on one image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .jacob_cov import correlations
from .passes import Call, Draw, Forward, Operations, Tap, Tapped
from .passes.taps import Place, maps
from .registry import reads, register

CHOSEN = 8
Choose = Callable[[int, int], list[int]]


def every(operations: Operations) -> Sequence[Place]:
    """Return the names of all modules, including containers and the network itself."""
    return [name for name, _ in operations.root.module.named_modules()]


def _channel_correlations(place: Place, activation: Tensor) -> Tensor:
    """Return the correlations `(C, C)` of the channels of the first image; those of a constant channel are zero."""
    if activation.is_complex():
        raise NotApplicableError(f"{place}: the feature map is complex, and correlations are those of real channels")
    first = activation[0].double()
    if isinstance(place, Call):
        if place.channels is None:
            raise NotApplicableError(
                f"{place}: it is not known which dimension of {tuple(activation.shape)} is channels"
            )
        first = activation.movedim(place.channels, 1)[0].double()
    return correlations(first.reshape(len(first), -1)).nan_to_num(0.0, 0.0, 0.0)


ONE_IMAGE = Forward(graph=False)
MAPS = Tap(ONE_IMAGE, at=maps, reduce=_channel_correlations)
EVERY = Tap(ONE_IMAGE, at=every, reduce=_channel_correlations)


def _smallest(matrix: Tensor) -> float:
    return float(torch.linalg.eigvalsh(matrix)[0])


@register("meco", paper="Jiang et al., MeCo, NeurIPS 2023", batch_size=1)
def meco(maps: Tapped = reads(MAPS)) -> float:
    r"""Add up the smallest eigenvalues of the correlations between the channels of each feature map.

    $$\sum_l \lambda_{\min}(P_l)$$

    Here $P_l$ `(C, C)` are the Pearson correlations between the channels of map l on the first image, in float64.
    Channels are the dimension 1 of a map `(N, C, H, W)` and the last dimension of `(N, H, W, C)` or of tokens. The
    maps are the outputs of layers, norms, activations, poolings and paddings, and of the skip connections of a search
    space. Batch norm is in train mode, so its statistics are those of the whole batch. If a map has more channels than
    positions, $P_l$ is singular and adds only round-off.

    Deviation: the authors read the output of every module, containers too, so a map counts once for each module that
    ends in it; see `meco.as_released`.

    Raises:
        NotApplicableError: A layer, a norm or a ReLU cannot be seen, or it is not known which dimension has the
            channels.
    """
    return sum(_smallest(matrix) for _, matrix in maps)


@register("meco.as_released", paper="Jiang et al., MeCo, NeurIPS 2023, as their code counts", batch_size=1)
def meco_as_released(maps: Tapped = reads(EVERY)) -> float:
    r"""Compute meco at every module, including containers and the network itself, as the released code does.

    $$\sum_m \lambda_{\min}(P_m)$$

    The score depends on how modules are nested.
    """
    return meco(maps)


@register("meco.opt", paper="Jiang et al., MeCo, NeurIPS 2023 (their software)", batch_size=1)
def meco_opt(
    maps: Tapped = reads(MAPS), draw: torch.Generator = reads(Draw("channels")), choose: Choose | None = None
) -> float:
    r"""Estimate meco from eight random channels of every feature map.

    $$\sum_l \frac{C_l}{8} \, \lambda_{\min}(P_l[S_l, S_l]), \qquad |S_l| = 8$$

    The channels $S_l$ are drawn by the seed of the probe. A map with fewer than eight channels is taken whole.
    """
    choose = choose or (lambda of, count: torch.randperm(of, generator=draw, device="cpu")[:count].tolist())
    total = 0.0
    for _, matrix in maps:
        channels = len(matrix)
        some = choose(channels, min(CHOSEN, channels))
        total += channels / len(some) * _smallest(matrix[some][:, some])
    return total
