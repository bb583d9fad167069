"""Sensitivity of the features to noise at the input, with batch norm's rescaling added back."""

from __future__ import annotations

from torch import Tensor, nn

from ..errors import NotApplicableError
from .passes.needs import Forward, Tap, global_pool, named
from .probe import Probe
from .registry import register


def _itself(activation: Tensor) -> Tensor:
    return activation


def features(forward: Forward) -> Tap:
    """Tap what enters the global pooling of a pass."""
    return Tap(forward, at=global_pool, reduce=_itself, side="input")


PAIR = Forward(init="gaussian", inputs=("noise", "noise+0.01*noise2"), graph=False)


@register("zen", needs=[features(PAIR)], paper="Lin et al., Zen-NAS, ICCV 2021, algorithm 1")
def zen(probe: Probe, pair: Forward = PAIR) -> float:
    r"""Measure how far features move when the input moves, in a Gaussian network.

    $$\text{zen} = \log \frac{1}{N} \sum_{n} \lVert f(x_n) - f(x_n + 0.01 \, \epsilon_n) \rVert_1
    + \sum_b \log \sqrt{\operatorname{mean}_c \sigma^2_{bc}}$$

    with f the input of the global pooling, weights and x, $\epsilon$ drawn from N(0, 1), and $\sigma^2_b$ the running
    variances of batch norm b after both passes, momentum included: the authors' code reads them so, although the pass
    itself uses batch statistics. One repeat. `-inf` where the features do not depend on the input. Residual
    connections are kept, as in NAS-Bench-Suite-Zero; Zen-NAS removes those of its own networks.

    Raises:
        NotApplicableError: No global pooling module, or a batch norm without running statistics.
    """
    (_, before), (_, after) = probe.tap(features(pair))
    moved = (before.double() - after.double()).abs().flatten(1).sum(1).mean()
    scale = sum(0.5 * variance.double().mean().log().item() for variance in _running_variances(probe, pair))
    return float(moved.log()) + scale


def _running_variances(probe: Probe, pair: Forward) -> list[Tensor]:
    buffers = probe.trace(pair).buffers
    variances = [f"{name}.running_var" for name in named(probe.net, (nn.BatchNorm2d,))]
    if missing := [name for name in variances if name not in buffers]:
        raise NotApplicableError(f"batch norms without running statistics: {', '.join(missing)}")
    return [buffers[name] for name in variances]
