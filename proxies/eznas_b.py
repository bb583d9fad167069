"""EZNAS-B, the second proxy that genetic programming found."""

from __future__ import annotations

from torch import Tensor

from .eznas_a import PAPER, convolution_of_triples, mean, third_of_triples
from .passes.needs import Backward, Forward, Tap
from .probe import Probe
from .registry import register


def _itself(activation: Tensor) -> Tensor:
    return activation


def _gradient(activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient


PERTURBED = "data+0.1*noise2"
INIT = "kaiming_fan_out"


def outputs(init: str = INIT) -> Tap:
    """Tap what the batch norms of all triples give, for the images and then for the perturbed ones."""
    return Tap(Forward(init=init, inputs=("data", PERTURBED), graph=False), at=third_of_triples, reduce=_itself)


def _input_gradients(name: str) -> Tap:
    backward = Backward(Forward(init=INIT, inputs=(name,)), "ones")
    return Tap(backward, at=convolution_of_triples, reduce=_gradient, side="input")


BEFORE, AFTER = _input_gradients("data"), _input_gradients(PERTURBED)


def _program(tensor: Tensor) -> float:
    """Return 1 / (|T| + exp |log sigmoid(log sigmoid T)|), where the log of what is not positive is zero."""
    tensor = tensor.double()
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
    r"""Average over ReLU-Conv-BatchNorm triples a function of how far a small perturbation moves the output.

    $$\operatorname{mean}_r \frac{1}{\lVert D_r \rVert_F + \exp \lVert \log \sigma(\log \sigma(D_r)) \rVert_F}$$

    with $D_r$ the output of the triple's last module, the batch norm, for $x + 0.1 \epsilon$ minus that for x,
    $\epsilon$ from N(0, 1). Kaiming fan-out weights, train mode, float64 after the pass. The exponent is the norm of
    a large tensor, so the value is little more than its size; at one image it lies between 1e-38 and 1e-20, at more
    it underflows. Low is better: the authors evolve the absolute correlation, and this one is negative.

    Deviation: the paper labels the input "pre-activation gradient, perturbed"; its code feeds this tensor.

    Raises:
        NotApplicableError: No triple.
    """
    found = probe.tap(maps or outputs())
    half = len(found) // 2
    scores = [_program(after - before) for (_, before), (_, after) in zip(found[:half], found[half:], strict=True)]
    return mean(scores)


@register("eznas_b.as_printed", needs=[BEFORE, AFTER], paper=f"{PAPER}, figure 6, the input as labelled", batch_size=1)
def eznas_b_as_printed(probe: Probe) -> float:
    r"""Compute the program of eznas_b on the tensor that the paper names: the gradient at the convolution's input.

    $$\operatorname{mean}_r \frac{1}{\lVert D_r \rVert_F + \exp \lVert \log \sigma(\log \sigma(D_r)) \rVert_F}$$

    with $D_r$ that gradient, of the sum of all logits, for the perturbed images minus that for the images.
    """
    pairs = zip(probe.tap(BEFORE), probe.tap(AFTER), strict=True)
    scores = [_program(after - before) for (_, before), (_, after) in pairs]
    return mean(scores)
