"""EZNAS-B, the second proxy that the authors found by genetic programming."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from .eznas_a import PAPER, convolution_of_triples, mean, third_of_triples
from .passes.needs import Backward, Forward, Tap, itself
from .probe import Probe
from .registry import register


def _gradient(activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient


PERTURBED = "data+0.1*noise2"
INIT = "kaiming_fan_out"


def outputs(init: str = INIT) -> Tap:
    """Return the tap of the outputs of all triples, for the images and then for the perturbed images."""
    return Tap(Forward(init=init, inputs=("data", PERTURBED), graph=False), at=third_of_triples, reduce=itself)


def _input_gradients(name: str) -> Tap:
    backward = Backward(Forward(init=INIT, inputs=(name,)), "ones")
    return Tap(backward, at=convolution_of_triples, reduce=_gradient, side="input")


BEFORE, AFTER = _input_gradients("data"), _input_gradients(PERTURBED)


Found = Iterable[tuple[str, Tensor]]


def _mean_program(before: Found, after: Found) -> float:
    return mean([_program((moved - still).double()) for (_, still), (_, moved) in zip(before, after, strict=True)])


def _program(tensor: Tensor) -> float:
    """Return 1 / (|T| + exp |log sigmoid(log sigmoid T)|)."""
    first = tensor.sigmoid().log()
    inner = first.sigmoid().log()
    return float(1 / (tensor.norm() + inner.norm().exp()))


@register(
    "eznas_b",
    needs=[outputs()],
    paper=f"{PAPER}, figure 6 (with the input that the released code feeds)",
    direction="lower",
    batch_size=1,
)
def eznas_b(probe: Probe, maps: Tap | None = None) -> float:
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
    found = probe.tap(maps or outputs())
    half = len(found) // 2
    return _mean_program(found[:half], found[half:])


@register("eznas_b.as_printed", needs=[BEFORE, AFTER], paper=f"{PAPER}, figure 6, the input as labelled", batch_size=1)
def eznas_b_as_printed(probe: Probe) -> float:
    r"""Compute eznas_b from the gradient at the convolution's input, the tensor that the paper names.

    $$\operatorname{mean}_r \frac{1}{\lVert D_r \rVert_F + \exp \lVert \log \sigma(\log \sigma(D_r)) \rVert_F}$$

    Here $D_r$ is the gradient of the sum of all logits for the perturbed images minus that for the images.
    """
    return _mean_program(probe.tap(BEFORE), probe.tap(AFTER))
