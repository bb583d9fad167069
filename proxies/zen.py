"""Zen-score: the sensitivity of the features to noise at the input, with the rescaling by batch norm added back."""

from __future__ import annotations

from torch import Tensor, nn

from ..errors import NotApplicableError
from .passes.needs import Forward, Tap, global_pool, itself, named
from .probe import Probe
from .registry import register


def features(forward: Forward) -> Tap:
    """Return the tap of the input of the global pooling in a pass."""
    return Tap(forward, at=global_pool, reduce=itself, side="input")


PAIR = Forward(init="gaussian", inputs=("noise", "noise+0.01*noise2"), graph=False)


@register("zen", needs=[features(PAIR)], paper="Lin et al., Zen-NAS, ICCV 2021, algorithm 1")
def zen(probe: Probe, pair: Forward = PAIR) -> float:
    r"""Measure how far the features move when the input moves, in a network with Gaussian weights.

    $$\text{zen} = \log \frac{1}{N} \sum_{n} \lVert f(x_n) - f(x_n + 0.01 \, \epsilon_n) \rVert_1
    + \sum_b \log \sqrt{\operatorname{mean}_c \sigma^2_{bc}}$$

    Here f is the input of the global pooling. Weights, x and $\epsilon$ are drawn from N(0, 1), once. $\sigma^2_b$ are
    the running variances of batch norm b after both passes, momentum included. The authors' code reads them like this,
    although the passes use batch statistics. The score is `-inf` if the features do not depend on the input. Residual
    connections are kept, as in NAS-Bench-Suite-Zero; Zen-NAS removes those of its own networks.

    Raises:
        NotApplicableError: The network has no global pooling module, or a batch norm without running statistics.
    """
    (_, before), (_, after) = probe.tap(features(pair))
    moved = (before.double() - after.double()).abs().flatten(1).sum(1).mean()
    scale = sum(0.5 * variance.double().mean().log().item() for variance in _running_variances(probe, pair))
    return float(moved.log()) + scale


def _running_variances(probe: Probe, pair: Forward) -> list[Tensor]:
    buffers = probe.trace(pair).buffers
    variances = [f"{name}.running_var" for name in named(probe.net, (nn.BatchNorm2d,))]
    if missing := [name for name in variances if name not in buffers]:
        raise NotApplicableError(f"the network has batch norms without running statistics: {', '.join(missing)}")
    return [buffers[name] for name in variances]
