"""Zen-score: the sensitivity of the features to noise at the input, with the rescaling by batch norm added back."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .passes import Forward, Need, Operations, Tap, Tapped, Variances
from .passes.inputs import NOISE, NOISE2
from .passes.taps import Place, itself
from .registry import reads, register


def before_pooling(operations: Operations) -> Sequence[Place]:
    """Return the call whose input is the last feature map, or no call."""
    call, side = operations.feature_map
    return [call] if side == "input" else []


def last_map(operations: Operations) -> Sequence[Place]:
    """Return the call whose output is the last feature map, or no call."""
    call, side = operations.feature_map
    return [call] if side == "output" else []


def features(forward: Forward) -> tuple[Need, Need]:
    """Return what reads the last feature map of a pass; one of the two is empty."""
    before = Tap(forward, at=before_pooling, reduce=itself, side="input")
    return before, Tap(forward, at=last_map, reduce=itself)


PAIR = Forward(init="gaussian", inputs=(NOISE, NOISE + 0.01 * NOISE2), graph=False)


POOLED, LAST = features(PAIR)


@register("zen", paper="Lin et al., Zen-NAS, ICCV 2021, algorithm 1")
def zen(
    pooled: Tapped = reads(POOLED), last: Tapped = reads(LAST), variances: list[Tensor] = reads(Variances(PAIR))
) -> float:
    r"""Measure how far the features move when the input moves, in a network with Gaussian weights.

    $$\text{zen} = \log \frac{1}{N} \sum_{n} \lVert f(x_n) - f(x_n + 0.01 \, \epsilon_n) \rVert_1
    + \sum_b \log \sqrt{\operatorname{mean}_c \sigma^2_{bc}}$$

    Here f is the input of the global pooling. Weights, x and $\epsilon$ are drawn from N(0, 1), once. $\sigma^2_b$ are
    the running variances of batch norm b after both passes, momentum included. The authors' code reads them like this,
    although the passes use batch statistics. The score is `-inf` if the features do not depend on the input. Residual
    connections are kept, as in NAS-Bench-Suite-Zero; Zen-NAS removes those of its own networks.

    Raises:
        NotApplicableError: The network has no feature map, or a batch norm without running statistics.
    """
    (_, before), (_, after) = pooled or last
    moved = (before.double() - after.double()).abs().flatten(1).sum(1).mean()
    scale = sum(0.5 * variance.double().mean().log().item() for variance in variances)
    return float(moved.log()) + scale
