"""How differently images switch the outputs of convolutions."""

from __future__ import annotations

from .naswot import EVAL, _agreement, _log_determinant
from .passes.needs import DATA, Tap, layers
from .probe import Probe
from .registry import register

CODES = Tap(DATA, at=layers, reduce=_agreement)
EVAL_CODES = Tap(EVAL, at=layers, reduce=_agreement)


@register("naswot_conv", needs=[CODES], paper="alethiometer (software); no paper defines it", least_images=2)
def naswot_conv(probe: Probe) -> float:
    r"""Compute naswot's kernel from the signs of convolution and linear outputs, before any norm.

    $$\log |\det K|, \quad K_{ij} = N_A - d_H(c_i, c_j)$$

    with $c_i$ telling which outputs are positive. Batch norm in train mode. `-inf` where K is singular; the released
    code returns 0 there.
    """
    return _log_determinant([kernel for _, kernel in probe.tap(CODES)])


@register("naswot_conv.eval", needs=[EVAL_CODES], paper="alethiometer (software), as it runs", least_images=2)
def naswot_conv_in_eval_mode(probe: Probe) -> float:
    r"""Compute naswot_conv in eval mode, as the released code does.

    $$\log |\det K|$$
    """
    return _log_determinant([kernel for _, kernel in probe.tap(EVAL_CODES)])
