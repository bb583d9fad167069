"""The Phi-score of Zen-NAS: how large the gradient of the features is, without batch norm."""

from __future__ import annotations

import torch

from .passes import Forward, Tapped
from .passes.inputs import NOISE, NOISE2
from .registry import reads, register
from .zen import features

#: The step is so small that no ReLU switches: the network is linear there, and the difference quotient is exact.
STEP = 1e-7
PAIR = Forward(init="gaussian", inputs=(NOISE, NOISE + STEP * NOISE2), mode="linear", dtype=torch.float64, graph=False)


POOLED, LAST = features(PAIR)


@register("phi", paper="Lin et al., Zen-NAS, ICCV 2021 (the Phi-score)")
def phi(pooled: Tapped = reads(POOLED), last: Tapped = reads(LAST)) -> float:
    r"""Take the logarithm of the norm of the gradient of the features by the input, without batch norm.

    $$\Phi = \log \mathbb{E}_x \lVert \nabla_x f(x) \rVert_F \approx \log \frac{1}{N} \sum_n \lVert J_n \epsilon_n
    \rVert_2$$

    Here f is the input of the global pooling, in the network without norm layers. Weights, x and $\epsilon$ are drawn
    from N(0, 1), and values are float64. Since $\mathbb{E}_\epsilon \lVert J \epsilon \rVert^2 = \lVert J \rVert_F^2$,
    one direction per image estimates the norm. $J \epsilon$ is a difference quotient, which is exact for a piecewise
    linear network. The score is `-inf` if the features do not depend on the input. Residual connections are kept, as in
    zen; the authors remove those of their own networks.

    Raises:
        NotApplicableError: The network has no feature map, or a norm that cannot be bypassed.
    """
    (_, before), (_, after) = pooled or last
    return float(((after - before).flatten(1).norm(dim=1) / STEP).mean().log())
