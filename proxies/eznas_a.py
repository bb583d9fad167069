"""EZNAS-A, the first proxy that the authors found by genetic programming."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import NotApplicableError
from .determinants import slogdet
from .operations.calls import conv_norm_relu, released_triples
from .passes import OPERATIONS, Backward, Call, Forward, Operations, ParameterGradients, Tap, Tapped
from .passes.inputs import NOISE
from .passes.objectives import SUM
from .passes.taps import Place
from .registry import reads, register


def first_of_triples(operations: Operations) -> Sequence[Place]:
    """Return the first operation of every triple, the ReLU."""
    return [first for first, _, _ in released_triples(operations.of_triples)]


def third_of_triples(operations: Operations) -> Sequence[Place]:
    """Return the third operation of every triple: a batch norm, or the ReLU of Conv-BatchNorm-ReLU."""
    return [third for _, _, third in released_triples(operations.of_triples)]


def convolution_of_triples(operations: Operations) -> Sequence[Call]:
    """Return the convolution of every triple, which may be its first or second operation."""
    triples = released_triples(operations.of_triples)
    return [call for triple in triples for call in triple if call.kind == "convolution"]


def first_of_conv_triples(operations: Operations) -> Sequence[Place]:
    """Return the convolution of every Conv-BatchNorm-ReLU triple."""
    return [first for first, _, _ in conv_norm_relu(operations.of_triples)]


def mean(scores: list[float]) -> float:
    """Return the mean score of all triples.

    Raises:
        NotApplicableError: No triple ran.
    """
    if not scores:
        raise NotApplicableError("the network runs none of its ReLU-Conv-BatchNorm triples")
    return sum(scores) / len(scores)


def _score(gradient: Tensor) -> Tensor:
    """Return the Frobenius norm of sigmoid(logdet(sign(G))) over the H x W matrices of G `(N, C, H, W)`."""
    _check_square(gradient)
    sign, logarithm = slogdet(gradient.sign())
    value = torch.where(sign > 0, logarithm.sigmoid(), 0.5).masked_fill(sign == 0, 0.0)
    norm: Tensor = value.norm()
    return norm


def _score_as_released(place: Place, activation: Tensor, gradient: Tensor) -> Tensor:
    _check_square(gradient)
    # The round-off of singular matrices depends on the memory layout; the released code stores rows.
    logarithm = gradient.sign().float().contiguous().logdet()
    norm: Tensor = logarithm.nan_to_num(0.0, neginf=-torch.inf).sigmoid().norm()
    return norm


def _score_of(place: Place, activation: Tensor, gradient: Tensor) -> Tensor:
    return _score(gradient)


def _check_square(gradient: Tensor) -> None:
    if gradient.ndim != 4 or gradient.shape[-1] != gradient.shape[-2]:
        raise NotApplicableError(
            f"determinants need square matrices (N, C, H, H), got the shape {tuple(gradient.shape)}"
        )


ONES = Backward(Forward(init="kaiming_fan_out"), SUM)
SIGNS = Tap(ONES, at=first_of_triples, reduce=_score_of, side="input")
SIGNS_AS_RELEASED = Tap(ONES, at=first_of_triples, reduce=_score_as_released, side="input")
CONV_SIGNS = Tap(ONES, at=first_of_conv_triples, reduce=_score_of, side="input")
WEIGHTS_ON_NOISE = ParameterGradients(Backward(Forward(init="kaiming_fan_out", inputs=(NOISE,)), SUM))
PAPER = "Akhauri et al., EZNAS, NeurIPS 2022"
EVOLVED = "evolved on NDS DARTS, CIFAR-10"
#: Where the combinations of triples that are ours were chosen.
CHOSEN = f"{EVOLVED}; the combination was chosen on trained DARTS networks (darts_trained)"


@register(
    "eznas_a",
    version=2,
    paper=f"{PAPER}, figure 6 (with the input that the released code feeds)",
    tuned_on=EVOLVED,
    batch_size=16,
)
def eznas_a(scores: Tapped = reads(SIGNS)) -> float:
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
    return mean([score for _, score in scores])


@register(
    "eznas_a.as_released",
    version=2,
    paper=f"{PAPER}, figure 6, as their code",
    tuned_on=EVOLVED,
    batch_size=16,
)
def eznas_a_as_released(scores: Tapped = reads(SIGNS_AS_RELEASED)) -> float:
    r"""Compute eznas_a with determinants by LU in float32, as the released code does.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    Because of round-off, some singular matrices get a tiny determinant. Its sign decides between 0 and 1/2, and differs
    between CPUs.
    """
    return eznas_a(scores)


@register(
    "eznas_a.as_printed",
    version=2,
    paper=f"{PAPER}, figure 6, the input as labelled",
    tuned_on=EVOLVED,
    batch_size=16,
)
def eznas_a_as_printed(
    gradients: dict[str, Tensor] = reads(WEIGHTS_ON_NOISE), operations: Operations = reads(OPERATIONS)
) -> float:
    r"""Compute eznas_a from weight gradients on noise, the tensor that the paper names.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} \partial (\textstyle\sum f) / \partial W_r )
    \rVert_F$$

    There is one determinant per pair of channels. The input is drawn from N(0, 1) in the shape of the images.

    Raises:
        NotApplicableError: The network has no triple, or its kernels are not square.
    """
    return mean([float(_score(gradients[call.weight])) for call in convolution_of_triples(operations)])


@register("eznas_a.l2", version=2, paper=f"{PAPER}, figure 10 (L2)", tuned_on=EVOLVED, batch_size=16)
def eznas_a_l2(scores: Tapped = reads(SIGNS)) -> float:
    r"""Combine the triples of eznas_a by their L2 norm instead of their mean.

    $$\Big( \sum_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F^2 \Big)^{1/2}$$

    The paper tries the norm instead of the mean for programs that return a tensor. This program returns a scalar, so
    the norm is taken over triples here. It grows with the number of triples.
    """
    return math.hypot(*(score for _, score in scores))


@register(
    "eznas_a.conv_bn_relu",
    version=2,
    paper=f"{PAPER}, figure 10 (C-B-R)",
    tuned_on=EVOLVED,
    batch_size=16,
)
def eznas_a_of_conv_bn_relu(scores: Tapped = reads(CONV_SIGNS)) -> float:
    r"""Compute eznas_a on Conv-BatchNorm-ReLU triples, from the gradient at the input of the convolution.

    $$\operatorname{mean}_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    The paper collects statistics in this way in an ablation, and evolves another program on them. Here the program is
    that of EZNAS-A.
    """
    return eznas_a(scores)


@register("eznas_a.sum", paper=f"ours, after {PAPER}", tuned_on=CHOSEN, batch_size=16)
def eznas_a_sum(scores: Tapped = reads(SIGNS)) -> float:
    r"""Add up the triples of eznas_a instead of averaging them.

    $$\sum_r \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    The score grows with the number of triples, and so with the number of convolutions.
    """
    return eznas_a(scores) * len(scores)


@register("eznas_a.per_channel", paper=f"ours, after {PAPER}", tuned_on=CHOSEN, batch_size=16)
def eznas_a_per_channel(scores: Tapped = reads(SIGNS)) -> float:
    r"""Divide the triples of eznas_a by the root of their number of channels before averaging them.

    $$\operatorname{mean}_r \frac{1}{\sqrt{C_r}} \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    Here $C_r$ is the number of channels of $G_r$. The norm is taken over the determinants of N images and $C_r$
    channels, so that of wide triples is larger, and this takes their width out.
    """
    return mean([score / math.sqrt(channels(place)) for place, score in scores])


@register("eznas_a.operations", paper=f"ours, after {PAPER}", tuned_on=CHOSEN, batch_size=16)
def eznas_a_operations(scores: Tapped = reads(SIGNS)) -> float:
    r"""Average the triples of eznas_a without those that only fit the inputs of a cell to its width.

    $$\operatorname{mean}_{r \in O} \lVert \sigma( \log\det \operatorname{sign} G_r ) \rVert_F$$

    DARTS cells begin with one such triple for each of their two inputs. It is known by what it reads: its ReLU reads
    the concatenation that a cell ends in, or, in a network with such cells, a map before which no ReLU ran: the stem.
    O are the other triples. A network without such cells has the score of eznas_a.

    Raises:
        NotApplicableError: The network has no triple, or none but those that are left out.
    """
    inputs = fits_a_cell([place for place, _ in scores])
    return mean([score for place, score in scores if place not in inputs])


def fits_a_cell(places: Sequence[Place]) -> set[Place]:
    """Return which ReLUs of triples read what a cell gives, or, in a network with such, the stem."""
    relus = [place for place in places if isinstance(place, Call) and place.relu]
    if not any(_reads_concatenation(relu) for relu in relus):
        return set()
    return {relu for relu in relus if _reads_concatenation(relu) or _is_first(relu)}


def channels(place: Place) -> int:
    """Return the number of channels at the input of an operation on maps `(N, C, H, W)`."""
    assert isinstance(place, Call)
    return place.seen[1]


def _reads_concatenation(relu: Call) -> bool:
    return any(source.kind == "cat" for source in relu.sources)


def _is_first(relu: Call) -> bool:
    """Return whether no ReLU ran on the way to this one."""
    waiting, known = list(relu.sources), set[Call]()
    while waiting:
        call = waiting.pop()
        if call.relu:
            return False
        if call not in known:
            known.add(call)
            waiting += call.sources
    return True
