"""EZNAS-A, the first proxy that the authors found by genetic programming."""

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
    """Return the names of the modules of all ReLU-Conv-BatchNorm triples in order, as the released code finds them.

    The modules are the convolutions, batch norms and ReLUs in definition order, without the stem, the head and
    convolutions that no batch norm follows. If they do not form triples (cells without convolutions), the triples are
    those of `conv_norm_relu`. The released code takes the execution order, which is the definition order in
    NAS-Bench-201.

    Raises:
        NotApplicableError: The network has no triple.
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
    """Return the names of the modules of all Conv-BatchNorm-ReLU triples in order, as the released code finds them.

    From the convolutions, batch norms and ReLUs in definition order, the code drops each module whose predecessor is of
    the wrong kind. It does so three times. Some convolutions are then paired with the ReLU of another block.

    Raises:
        NotApplicableError: The network has no triple.
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
    """Return the name of the first module of every triple, the ReLU."""
    return tuple(relu_conv_norm(net)[::3])


def convolution_of_triples(net: nn.Module) -> tuple[str, ...]:
    """Return the name of the convolution of every triple, which may be its first or second module."""
    return tuple(name for name in relu_conv_norm(net) if isinstance(net.get_submodule(name), nn.Conv2d))


def third_of_triples(net: nn.Module) -> tuple[str, ...]:
    """Return the name of the third module of every triple: a batch norm, or the ReLU of Conv-BatchNorm-ReLU."""
    return tuple(relu_conv_norm(net)[2::3])


def first_of_conv_triples(net: nn.Module) -> tuple[str, ...]:
    """Return the name of the convolution of every Conv-BatchNorm-ReLU triple."""
    return tuple(conv_norm_relu(net)[::3])


def mean(scores: list[float]) -> float:
    """Return the mean score of all triples.

    Raises:
        NotApplicableError: No triple ran.
    """
    if not scores:
        raise NotApplicableError("the network runs none of its ReLU-Conv-BatchNorm triples")
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


def _score_as_released(activation: Tensor, gradient: Tensor) -> float:
    _check_square(gradient)
    # The round-off of singular matrices depends on the memory layout; the released code stores rows.
    return float(gradient.sign().float().contiguous().logdet().nan_to_num(0.0, neginf=-torch.inf).sigmoid().norm())


def _score_of(activation: Tensor, gradient: Tensor) -> float:
    return _score(gradient)


def _check_square(gradient: Tensor) -> None:
    if gradient.ndim != 4 or gradient.shape[-1] != gradient.shape[-2]:
        raise NotApplicableError(
            f"determinants need square matrices (N, C, H, H), got the shape {tuple(gradient.shape)}"
        )


ONES = Backward(Forward(init="kaiming_fan_out"), "ones")
SIGNS = Tap(ONES, at=first_of_triples, reduce=_score_of, side="input")
SIGNS_AS_RELEASED = Tap(ONES, at=first_of_triples, reduce=_score_as_released, side="input")
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
    r"""Average a function of the determinants of gradient signs at the ReLUs (found by genetic programming).

    $$\text{eznas\_a} = \operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    The mean is over ReLU-Conv-BatchNorm triples r. Here $G_r$ `(N, C, H, W)` is the gradient of the sum of all logits
    at the input of the triple's ReLU, through that ReLU only, with one determinant per image and channel. A negative
    determinant gives 1/2 (its logarithm is NaN, which becomes 0), zero gives 0, and a positive d gives d / (1 + d).
    Weights are drawn by Kaiming fan-out, and batch norm is in train mode. The score grows with the square root of the
    batch size: never compare scores of different batch sizes.

    Deviations: the paper labels the input "weight gradient, noise", but its code feeds the tensor above. The labelled
    tensor has a Kendall tau of .26 instead of .60. Signs and logarithms of determinants are float64 here, and singular
    matrices are recognised exactly. The released code uses float32, which has LU round-off (typically 1e-3, and 7e-2 in
    cells without convolutions); `eznas_a.as_released` has it too.

    Raises:
        NotApplicableError: The network has no triple, or its feature maps are not square.
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
    r"""Compute eznas_a with determinants by LU in float32, as the released code does.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    Because of round-off, some singular matrices get a tiny determinant. Its sign decides between 0 and 1/2, and differs
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
    r"""Compute eznas_a from weight gradients on noise, the tensor that the paper names.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} \partial (\textstyle\sum f) / \partial W_r )
    \rVert_F$$

    There is one determinant per pair of channels. The input is drawn from N(0, 1) in the shape of the images.

    Raises:
        NotApplicableError: The network has no triple, or its kernels are not square.
    """
    gradients = probe.gradients(WEIGHTS_ON_NOISE)
    scores = [_score(gradients[f"{name}.weight"]) for name in convolution_of_triples(probe.net)]
    return mean(scores)


@register("eznas_a.l2", version=2, needs=[SIGNS], paper=f"{PAPER}, figure 10 (L2)", batch_size=16)
def eznas_a_l2(probe: Probe) -> float:
    r"""Combine the triples of eznas_a by their L2 norm instead of their mean.

    $$\Big( \sum_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F^2 \Big)^{1/2}$$

    The paper tries the norm instead of the mean for programs that return a tensor. This program returns a scalar, so
    the norm is taken over triples here. It grows with the number of triples.
    """
    return math.hypot(*(score for _, score in probe.tap(SIGNS)))


@register("eznas_a.conv_bn_relu", version=2, needs=[CONV_SIGNS], paper=f"{PAPER}, figure 10 (C-B-R)", batch_size=16)
def eznas_a_of_conv_bn_relu(probe: Probe) -> float:
    r"""Compute eznas_a on Conv-BatchNorm-ReLU triples, from the gradient at the input of the convolution.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    The paper collects statistics in this way in an ablation, and evolves another program on them. Here the program is
    that of EZNAS-A.
    """
    return eznas_a(probe, CONV_SIGNS)
