"""The passes that proxies need, as plain descriptions of what is run.

A `Forward` is an initialisation, inputs and a mode. A `Backward` is a forward and the scalar that is differentiated. A
`Gradient` is a backward and what the scalar is differentiated for. A `Tap` reduces the activations of chosen modules,
and their gradients, while the pass runs, so that whole activations need not be kept. A `PerImage` reduces the gradients
of every image, each image processed by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ...errors import NotApplicableError
from .inits import LAYERS


@dataclass(frozen=True)
class Forward:
    """A forward pass.

    Attributes:
        init: Initialisation of parameters and buffers, a name of `inits.INITS`.
        inputs: Names of the input tensors, which run one after another on the same buffers: `data`, `ones`, `noise`,
            `noise2`; `a+c*b` for a constant c; `data[i/n]`, the i-th of n equal slices of the images, with its labels;
            `crops`, 1,000 small pieces of the images.
        mode: `train` or `eval`; `linear`, train mode with every norm layer replaced by the identity; `per_image`, train
            mode with batch norm statistics per image.
        dtype: Type of parameters, buffers and inputs; None keeps that of the network.
        graph: Whether the pass can be differentiated.
    """

    init: str = "given"
    inputs: tuple[str, ...] = ("data",)
    mode: Literal["train", "eval", "linear", "per_image"] = "train"
    dtype: torch.dtype | None = None
    graph: bool = True


@dataclass(frozen=True)
class Backward:
    """A backward pass from a scalar of the first input of a forward pass.

    Attributes:
        forward: Forward pass that is differentiated.
        objective: Scalar that is differentiated.
            `loss`: the mean cross entropy with the labels. `ones`: the sum of all outputs. `labels`: the sum of the
            outputs at the labels.
            `ones of each`, `label of each`: the sum of outputs, or the output at the label, of every image of the
            batch. One vectorised pass gives gradients with a first dimension of N. Images share batch norm statistics.
            `loss per image`, `ones per image`, `logits per image`: the loss, the sum of outputs, or every output, of
            every image in a batch of its own. These are for `PerImage`.
            `signs`: random signs at every tapped activation, sent back to the previous tapped activation.
        order: 1 for the gradient; 2 for the Hessian times the gradient of convolution and linear weights, which takes a
            backward pass that can be differentiated and another one through it.
    """

    forward: Forward
    objective: Literal[
        "loss",
        "ones",
        "labels",
        "ones of each",
        "label of each",
        "loss per image",
        "ones per image",
        "logits per image",
        "signs",
    ]
    order: int = 1


@dataclass(frozen=True)
class Gradient:
    """The gradient of a backward pass with respect to all parameters, or to the input."""

    backward: Backward
    of: Literal["parameters", "input"]


@dataclass(frozen=True)
class Tap:
    """A reduction at chosen modules while a pass runs.

    Attributes:
        source: Pass that is tapped. Of a `Forward`, the reduction gets the activation. Of a `Backward`, it gets the
            activation and its gradient. The gradient is zero if no path leads to the output; at an input, it is the
            part that flows through this module only. For the objective `signs`, the reduction gets the signs at a
            module and the gradient at the previous tapped module, or at the input of the first one.
        at: Function from a network to the names of the tapped modules, in any order.
        reduce: Module-level function of the activation. Its result should be small, since the probe keeps it.
        side: Side of the module that is tapped: its `output` or its `input`. For `layer`, the reduction gets the
            module, its input and the gradient at its output.
    """

    source: Forward | Backward
    at: Callable[[nn.Module], tuple[str, ...]]
    reduce: Callable[..., Any]
    side: Literal["output", "input", "layer"] = "output"


@dataclass(frozen=True)
class PerImage:
    """A reduction of the gradients of every image in a batch of its own, in one vectorised pass over images.

    Attributes:
        backward: Backward pass, with an objective that ends in `per image`.
        of: Parameters to differentiate for: all `parameters`, or the `first` element of each parameter tensor.
        reduce: Module-level function from gradients by parameter name, `(n, *shape)` or `(n, classes, *shape)` for n
            images, to a tensor. The tensors are joined along the first dimension.
    """

    backward: Backward
    of: Literal["parameters", "first"]
    reduce: Callable[[dict[str, Tensor]], Tensor]


Need = Forward | Gradient | Tap | PerImage

DATA = Forward()
LOSS = Gradient(Backward(DATA, "loss"), of="parameters")
JACOBIAN = Gradient(Backward(DATA, "ones"), of="input")


def itself(activation: Tensor) -> Tensor:
    """Return the activation, as the reduction of a tap that keeps all of it."""
    return activation


def named(net: nn.Module, kinds: tuple[type[nn.Module], ...]) -> tuple[str, ...]:
    """Return the names of the modules of some kinds, in definition order."""
    return tuple(name for name, module in net.named_modules() if isinstance(module, kinds))


def layers(net: nn.Module) -> tuple[str, ...]:
    """Return the names of the convolution and linear modules, in definition order."""
    return named(net, LAYERS)


def layer_weights(net: nn.Module) -> list[str]:
    """Return the names of the convolution and linear weights, in definition order; a shared weight appears once."""
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    return list(dict.fromkeys(names[id(net.get_submodule(layer).get_parameter("weight"))] for layer in layers(net)))


def relus(net: nn.Module) -> tuple[str, ...]:
    """Return the names of the ReLU modules, in definition order.

    Raises:
        NotApplicableError: The network has no ReLU module.
    """
    return named(net, (nn.ReLU, nn.ReLU6)) or _lacks("a ReLU module")


def called_relu(net: nn.Module) -> tuple[str, ...]:
    """Return the names of the modules whose class name contains "ReLU", containers included, as in several codes.

    Raises:
        NotApplicableError: The network has no such module.
    """
    found = tuple(name for name, module in net.named_modules() if "ReLU" in type(module).__name__)
    return found or _lacks("a module called ReLU")


def blocks(net: nn.Module) -> tuple[str, ...]:
    """Return the names of the blocks of a network: the members of its longest sequence of modules.

    Of sequences of equal length, the outermost counts. The blocks are the cells and reductions of a cell network, and
    the layers of a plain stack.

    Raises:
        NotApplicableError: The network has no sequence of two modules.
    """
    lists = [(name, m) for name, m in net.named_modules() if isinstance(m, (nn.Sequential, nn.ModuleList))]
    name, longest = max(lists, key=lambda item: len(item[1]), default=("", nn.ModuleList()))
    if len(longest) < 2:
        _lacks("a sequence of blocks")
    return tuple(f"{name}.{child}" if name else child for child, _ in longest.named_children())


def first_block(net: nn.Module) -> tuple[str, ...]:
    """Return the name of the first block, whose input is the output of the stem."""
    return blocks(net)[:1]


def global_pool(net: nn.Module) -> tuple[str, ...]:
    """Return the name of the last global pooling module, whose input is the feature map of the network.

    Raises:
        NotApplicableError: The network has no global pooling module.
    """
    pools = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
    return named(net, pools)[-1:] or _lacks("a global pooling module")


def forward_of(need: Need) -> Forward:
    """Return the forward pass behind a need."""
    source = _source(need)
    return source.forward if isinstance(source, Backward) else source


def backward_of(need: Need) -> Backward | None:
    """Return the backward pass behind a need, None if it has none."""
    source = _source(need)
    return source if isinstance(source, Backward) else None


def _source(need: Need) -> Forward | Backward:
    match need:
        case Gradient() | PerImage():
            return need.backward
        case Tap():
            return need.source
        case Forward():
            return need


def _lacks(what: str) -> tuple[str, ...]:
    raise NotApplicableError(f"the network lacks {what}")
