"""NASWOT on the outputs of convolution and linear layers."""

from __future__ import annotations

from .naswot import EVAL, agreement, naswot
from .passes import DATA, Tap, Tapped
from .passes.taps import layers
from .registry import reads, register

CODES = Tap(DATA, at=layers, reduce=agreement)
EVAL_CODES = Tap(EVAL, at=layers, reduce=agreement)


@register("naswot_conv", paper="alethiometer (software); no paper defines it", least_images=2)
def naswot_conv(codes: Tapped = reads(CODES)) -> float:
    r"""Measure how differently the images switch the signs of convolution and linear outputs.

    $$\log |\det K|, \quad K_{ij} = N_A - d_H(c_i, c_j)$$

    Here $c_i$ says which outputs are positive for image i, before any norm, and K is as in naswot. Batch norm is in
    train mode. The score is `-inf` if K is singular; the released code returns 0 there.
    """
    return naswot(codes)


@register("naswot_conv.eval", paper="alethiometer (software), as it runs", least_images=2)
def naswot_conv_in_eval_mode(codes: Tapped = reads(EVAL_CODES)) -> float:
    r"""Compute naswot_conv in eval mode, as the released code does.

    $$\log |\det K|$$
    """
    return naswot(codes)
