"""EZNAS-A, the proxy that genetic programming found."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import NotApplicableError
from .passes import Backward, Forward, Tap
from .probe import Probe
from .registry import register


def first_of_triples(net: nn.Module) -> tuple[str, ...]:
    """Name the first module of every ReLU-Conv-BatchNorm triple, as the released code finds them.

    Convolutions, batch norms and ReLUs in definition order, without convolutions that no batch norm follows, without
    the stem and the head. Where the rest does not come out in threes (cells without convolutions), the triples are
    Conv-BatchNorm-ReLU instead: a module is dropped where its predecessor is of the wrong kind, three times over, which
    pairs some convolutions with the ReLU of another block. The released code walks in execution order there, which is
    the definition order in NAS-Bench-201.

    Raises:
        NotApplicableError: No triple is left.
    """
    kinds = {nn.ReLU: "R", nn.Conv2d: "C", nn.BatchNorm2d: "B"}
    found = [(name, kinds[type(module)]) for name, module in net.named_modules() if type(module) in kinds]
    following = [kind for _, kind in found[1:]] + [""]
    body = [(n, k) for (n, k), after in zip(found, following, strict=False) if k != "C" or after == "B"][2:]
    if body and body[-1][1] == "R":
        body.pop()
    if [k for _, k in body[-2:]] == ["B", "B"]:
        body.pop()
    if [k for _, k in body] != ["R", "C", "B"] * (len(body) // 3):
        body = _conv_first(found)
    if not body:
        raise NotApplicableError("the network has no ReLU-Conv-BatchNorm triple")
    return tuple(name for name, _ in body[::3])


def _conv_first(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    wanted = {"C": "R", "B": "C", "R": "B"}
    for _ in range(3):
        before = ["R"] + [kind for _, kind in found]
        found = [(n, k) for (n, k), last in zip(found, before, strict=False) if last == wanted[k]]
    return found[: len(found) // 3 * 3]


def _score(activation: Tensor, gradient: Tensor) -> float:
    """Return the Frobenius norm of sigmoid(logdet(sign(G))) over the H x W matrices of G `(N, C, H, W)`."""
    if gradient.ndim != 4 or gradient.shape[-1] != gradient.shape[-2]:
        raise NotApplicableError(f"determinants need square feature maps, this one is {tuple(gradient.shape)}")
    sign, logarithm = torch.linalg.slogdet(gradient.sign().double())
    # A matrix of signs has an integer determinant: below 1/2 it is zero, whatever LU's round-off left of it.
    singular = logarithm < -0.5
    value = torch.where(sign > 0, logarithm.sigmoid(), 0.5).masked_fill(singular, 0.0)
    return float(value.norm())


SIGNS = Tap(
    Backward(Forward(init="kaiming_fan_out"), "ones"),
    at=first_of_triples,
    reduce=_score,
    side="input",
)


@register(
    "eznas_a",
    needs=[SIGNS],
    paper="Akhauri et al., EZNAS, NeurIPS 2022, figure 6 (with the input that the released code feeds)",
    batch_size=16,
)
def eznas_a(probe: Probe, signs: Tap = SIGNS) -> float:
    r"""Average over ReLU-Conv-BatchNorm triples a norm of determinants of gradient signs.

    $$\text{eznas\_a} = \operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    with $G_r$ `(N, C, H, W)` the gradient of the sum of all logits at the input of the triple's ReLU, through that
    ReLU only, on the images, one determinant per image and channel. A negative determinant gives 1/2 (its logarithm is
    NaN, set to 0), zero gives 0, a positive one d gives d / (1 + d). Kaiming fan-out weights, batch norm in train
    mode. Grows with the square root of the batch size: keep that fixed.

    Deviations: the paper labels the input "weight gradient, noise"; its code feeds this tensor, and the label scores
    .26 instead of .60 (Kendall). Signs and logarithms of determinants are float64 and a singular matrix is recognised
    exactly; the released float32 carries LU round-off (1e-3 typical, 7e-2 in cells without convolutions).

    Raises:
        NotApplicableError: No triple, or feature maps that are not square.
    """
    scores: list[float] = [score for _, score in probe.tap(signs)]
    return sum(scores) / len(scores)
