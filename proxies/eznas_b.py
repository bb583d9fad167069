"""EZNAS-B, the second proxy that the authors found by genetic programming."""

from __future__ import annotations

from torch import Tensor

from .eznas_a import PAPER, convolution_of_triples, mean, third_of_triples
from .passes import Backward, Forward, Tap, Tapped
from .passes.inputs import DATA, NOISE2, Input
from .passes.objectives import SUM
from .passes.taps import Place, itself
from .registry import reads, register


def _gradient(place: Place, activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient


PERTURBED = DATA + 0.1 * NOISE2
INIT = "kaiming_fan_out"
EVOLVED = "evolved on NDS ENAS"


def outputs(init: str = INIT) -> Tap:
    """Return the tap of the outputs of all triples, for the images and then for the perturbed images."""
    return Tap(Forward(init=init, inputs=(DATA, PERTURBED), graph=False), at=third_of_triples, reduce=itself)


def _input_gradients(given: Input) -> Tap:
    backward = Backward(Forward(init=INIT, inputs=(given,)), SUM)
    return Tap(backward, at=convolution_of_triples, reduce=_gradient, side="input")


BEFORE, AFTER = _input_gradients(DATA), _input_gradients(PERTURBED)


def _mean_program(before: Tapped, after: Tapped) -> float:
    return mean([_program((moved - still).double()) for (_, still), (_, moved) in zip(before, after, strict=True)])


def _program(tensor: Tensor) -> float:
    """Return 1 / (|T| + exp |log sigmoid(log sigmoid T)|)."""
    first = tensor.sigmoid().log()
    inner = first.sigmoid().log()
    return float(1 / (tensor.norm() + inner.norm().exp()))


@register(
    "eznas_b",
    paper=f"{PAPER}, figure 6 (with the input that the released code feeds)",
    tuned_on=EVOLVED,
    direction="lower",
    batch_size=1,
)
def eznas_b(maps: Tapped = reads(outputs())) -> float:
    r"""Measure how far a small perturbation of the images moves the features (found by genetic programming).

    $$\operatorname{mean}_r \frac{1}{\lVert D_r \rVert_F + \exp \lVert \log \sigma(\log \sigma(D_r)) \rVert_F}$$

    The mean is over ReLU-Conv-BatchNorm triples r. Here $D_r$ is the output of the triple's batch norm for
    $x + 0.1 \epsilon$ minus its output for x, with $\epsilon$ drawn from N(0, 1). Weights are drawn by Kaiming
    fan-out, batch norm is in train mode, and values are float64 after the pass. The exponent is the norm of a large
    tensor, so the score tells little more than the size of that tensor. It lies between 1e-38 and 1e-20 for one image,
    and underflows for more. Lower is better: the authors evolve the absolute coefficient, and the coefficient of this
    program is negative.

    Deviation: the paper labels the input "pre-activation gradient, perturbed", but its code feeds the tensor above.

    Raises:
        NotApplicableError: The network has no triple.
    """
    half = len(maps) // 2
    return _mean_program(maps[:half], maps[half:])


@register("eznas_b.as_printed", paper=f"{PAPER}, figure 6, the input as labelled", tuned_on=EVOLVED, batch_size=1)
def eznas_b_as_printed(before: Tapped = reads(BEFORE), after: Tapped = reads(AFTER)) -> float:
    r"""Compute eznas_b from the gradient at the convolution's input, the tensor that the paper names.

    $$\operatorname{mean}_r \frac{1}{\lVert D_r \rVert_F + \exp \lVert \log \sigma(\log \sigma(D_r)) \rVert_F}$$

    Here $D_r$ is the gradient of the sum of all logits for the perturbed images minus that for the images.
    """
    return _mean_program(before, after)
