"""EZNAS-A, the proxy that genetic programming found."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..errors import NotApplicableError
from .determinants import slogdet
from .passes.needs import Backward, Forward, Gradient, Tap
from .probe import Probe
from .registry import register


def relu_conv_norm(net: nn.Module) -> list[str]:
    """Name the modules of every ReLU-Conv-BatchNorm triple one after the other, as the released code finds them.

    Convolutions, batch norms and ReLUs in definition order, without convolutions that no batch norm follows, without
    the stem and the head. Where the rest does not come out in threes (cells without convolutions), the triples are
    those of `conv_norm_relu`. The released code walks in execution order there, which is the definition order in
    NAS-Bench-201.

    Raises:
        NotApplicableError: No triple is left.
    """
    found = _conv_norm_and_relu(net)
    following = [kind for _, kind in found[1:]] + [""]
    body = [(n, k) for (n, k), after in zip(found, following, strict=False) if k != "C" or after == "B"][2:]
    if body and body[-1][1] == "R":
        body.pop()
    if [k for _, k in body[-2:]] == ["B", "B"]:
        body.pop()
    if not body or [k for _, k in body] != ["R", "C", "B"] * (len(body) // 3):
        return conv_norm_relu(net)
    return [name for name, _ in body]


def conv_norm_relu(net: nn.Module) -> list[str]:
    """Name the modules of every Conv-BatchNorm-ReLU triple one after the other, as the released code finds them.

    Of convolutions, batch norms and ReLUs in definition order, a module is dropped where its predecessor is of the
    wrong kind, three times over, which pairs some convolutions with the ReLU of another block.

    Raises:
        NotApplicableError: No triple is left.
    """
    found = _conv_norm_and_relu(net)
    wanted = {"C": "R", "B": "C", "R": "B"}
    for _ in range(3):
        before = ["R"] + [kind for _, kind in found]
        found = [(n, k) for (n, k), last in zip(found, before, strict=False) if last == wanted[k]]
    body = found[: len(found) // 3 * 3]
    if not body:
        raise NotApplicableError("the network has no ReLU-Conv-BatchNorm triple")
    return [name for name, _ in body]


def first_of_triples(net: nn.Module) -> tuple[str, ...]:
    """Name the first module of every triple: the ReLU."""
    return tuple(relu_conv_norm(net)[::3])


def convolution_of_triples(net: nn.Module) -> tuple[str, ...]:
    """Name the convolution of every triple, wherever it stands in it."""
    return tuple(name for name in relu_conv_norm(net) if isinstance(net.get_submodule(name), nn.Conv2d))


def third_of_triples(net: nn.Module) -> tuple[str, ...]:
    """Name the third module of every triple: the batch norm, or the ReLU of a Conv-BatchNorm-ReLU triple."""
    return tuple(relu_conv_norm(net)[2::3])


def first_of_conv_triples(net: nn.Module) -> tuple[str, ...]:
    """Name the convolution of every Conv-BatchNorm-ReLU triple."""
    return tuple(conv_norm_relu(net)[::3])


def mean(scores: list[float]) -> float:
    """Average over triples.

    Raises:
        NotApplicableError: None of them ran.
    """
    if not scores:
        raise NotApplicableError("no ReLU-Conv-BatchNorm triple of the network runs")
    return sum(scores) / len(scores)


def _conv_norm_and_relu(net: nn.Module) -> list[tuple[str, str]]:
    kinds = {nn.ReLU: "R", nn.Conv2d: "C", nn.BatchNorm2d: "B"}
    return [(name, kinds[type(module)]) for name, module in net.named_modules() if type(module) in kinds]


def _score(gradient: Tensor) -> float:
    """Return the Frobenius norm of sigmoid(logdet(sign(G))) over the H x W matrices of G `(N, C, H, W)`."""
    _check_square(gradient)
    sign, logarithm = slogdet(gradient.sign())
    value = torch.where(sign > 0, logarithm.sigmoid(), 0.5).masked_fill(sign == 0, 0.0)
    return float(value.norm())


def _score_as_released(gradient: Tensor) -> float:
    _check_square(gradient)
    # Round-off of singular matrices depends on the layout: the released code has rows.
    return float(gradient.sign().float().contiguous().logdet().nan_to_num(0.0, neginf=-torch.inf).sigmoid().norm())


def _score_of(activation: Tensor, gradient: Tensor) -> float:
    return _score(gradient)


def _score_of_as_released(activation: Tensor, gradient: Tensor) -> float:
    return _score_as_released(gradient)


def _check_square(gradient: Tensor) -> None:
    if gradient.ndim != 4 or gradient.shape[-1] != gradient.shape[-2]:
        raise NotApplicableError(f"determinants need square feature maps, this one is {tuple(gradient.shape)}")


ONES = Backward(Forward(init="kaiming_fan_out"), "ones")
SIGNS = Tap(ONES, at=first_of_triples, reduce=_score_of, side="input")
SIGNS_AS_RELEASED = Tap(ONES, at=first_of_triples, reduce=_score_of_as_released, side="input")
CONV_SIGNS = Tap(ONES, at=first_of_conv_triples, reduce=_score_of, side="input")
WEIGHTS_ON_NOISE = Gradient(Backward(Forward(init="kaiming_fan_out", inputs=("noise",)), "ones"), of="parameters")
PAPER = "Akhauri et al., EZNAS, NeurIPS 2022"


@register(
    "eznas_a",
    version=2,
    needs=[SIGNS],
    paper=f"{PAPER}, figure 6 (with the input that the released code feeds)",
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
    exactly; the released float32 carries LU round-off (1e-3 typical, 7e-2 in cells without convolutions), as
    `eznas_a.as_released` does.

    Raises:
        NotApplicableError: No triple, or feature maps that are not square.
    """
    return mean([score for _, score in probe.tap(signs)])


@register(
    "eznas_a.as_released",
    version=2,
    needs=[SIGNS_AS_RELEASED],
    paper=f"{PAPER}, figure 6, as their code",
    batch_size=16,
)
def eznas_a_as_released(probe: Probe) -> float:
    r"""Compute eznas_a with determinants by LU in float32.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    Round-off leaves some singular matrices a tiny determinant, whose sign then decides between 0 and 1/2, and differs
    between CPUs.
    """
    return eznas_a(probe, SIGNS_AS_RELEASED)


@register(
    "eznas_a.as_printed",
    version=2,
    needs=[WEIGHTS_ON_NOISE],
    paper=f"{PAPER}, figure 6, the input as labelled",
    batch_size=16,
)
def eznas_a_as_printed(probe: Probe) -> float:
    r"""Compute the program of eznas_a on the tensor that the paper names: weight gradients, on noise.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} \partial (\textstyle\sum f) / \partial W_r )
    \rVert_F$$

    one determinant per pair of channels. Input N(0, 1) in the shape of the images.

    Raises:
        NotApplicableError: No triple, or kernels that are not square.
    """
    gradients = probe.gradients(WEIGHTS_ON_NOISE)
    scores = [_score(gradients[f"{name}.weight"]) for name in convolution_of_triples(probe.net)]
    return mean(scores)


@register("eznas_a.l2", version=2, needs=[SIGNS], paper=f"{PAPER}, figure 10 (L2)", batch_size=16)
def eznas_a_l2(probe: Probe) -> float:
    r"""Aggregate the scores of eznas_a by their norm.

    $$\Big( \sum_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F^2 \Big)^{1/2}$$

    The paper tries the norm instead of the mean where a program leaves a tensor. This one leaves a scalar, which a norm
    does not change, so the norm is taken over triples; it grows with their number.
    """
    return math.hypot(*(score for _, score in probe.tap(SIGNS)))


@register("eznas_a.conv_bn_relu", version=2, needs=[CONV_SIGNS], paper=f"{PAPER}, figure 10 (C-B-R)", batch_size=16)
def eznas_a_of_conv_bn_relu(probe: Probe) -> float:
    r"""Compute eznas_a on Conv-BatchNorm-ReLU triples, from the gradient at the input of the convolution.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    The paper collects statistics so in an ablation and evolves another program on them; this is EZNAS-A's.
    """
    return eznas_a(probe, CONV_SIGNS)
