"""The passes that proxies read, as names: what is run, not who asks.

A `Forward` is (initialisation, inputs, mode), a `Backward` a forward and the scalar that is differentiated, a
`Gradient` what it is differentiated for, and a `Tap` reduces an activation, or an activation and its gradient, at
chosen modules while the pass runs, so that whole activations need not be kept. A `PerImage` reduces what every image
alone contributes.
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
        init: Where parameters and buffers come from, a name of `inits.INITS`.
        inputs: Names of the input tensors, run one after the other on the same buffers: `data`, `ones`, `noise`,
            `noise2`; `a+c*b` for a number c; `data[i/n]`, the i-th of n equal slices of the images, whose loss is on
            their labels; `crops`, 1,000 small pieces of the images.
        mode: `train` or `eval`; `linear` is train mode with every norm layer replaced by the identity, `alone` train
            mode with batch norm statistics of each image by itself.
        dtype: Cast of parameters, buffers and inputs; None keeps the network's own.
        graph: Whether the pass can be differentiated.
    """

    init: str = "given"
    inputs: tuple[str, ...] = ("data",)
    mode: Literal["train", "eval", "linear", "alone"] = "train"
    dtype: torch.dtype | None = None
    graph: bool = True


@dataclass(frozen=True)
class Backward:
    """A backward pass from a scalar of the first input of a forward pass.

    Attributes:
        forward: The pass that is differentiated.
        objective: What is differentiated.
            `loss`: the mean cross entropy with the labels; `ones`: the sum of all outputs; `labels`: the sum of the
            outputs at the labels.
            `ones of each`, `label of each`: the same for every image, one vectorised pass whose gradients have a first
            dimension of N. Images meet in batch norm.
            `loss alone`, `ones alone`, `logits alone`: the loss, the sum of outputs, or every output, of every image in
            a batch of its own; for `PerImage`.
            `signs`: random signs at every tapped activation, sent back to the one tapped before.
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
        "loss alone",
        "ones alone",
        "logits alone",
        "signs",
    ]
    order: int = 1


@dataclass(frozen=True)
class Gradient:
    """What a backward pass differentiates with respect to: all parameters, or the input."""

    backward: Backward
    of: Literal["parameters", "input"]


@dataclass(frozen=True)
class Tap:
    """A reduction at chosen modules while a pass runs.

    Attributes:
        source: The pass. At a `Forward` the reduction gets the activation; at a `Backward` the activation and its
            gradient, which is zero where no path leads to the output and, at an input, the part that flows through this
            module only. For the objective `signs` it gets the signs at a module and what comes back at the module
            before, or at the input of the first one.
        at: Chooses modules of a network by name, in any order.
        reduce: A module-level function; its result is kept until the probe goes, so it should be small.
        side: Whether the activation is the module's `output` or its `input`. At a `layer`, the reduction gets the
            module, its input and the gradient at its output.
    """

    source: Forward | Backward
    at: Callable[[nn.Module], tuple[str, ...]]
    reduce: Callable[..., Any]
    side: Literal["output", "input", "layer"] = "output"


@dataclass(frozen=True)
class PerImage:
    """What every image contributes when it is alone, in one vectorised pass over images.

    Attributes:
        backward: The pass, of an objective that ends in `alone`.
        of: All `parameters`, or the `first` element of each parameter tensor.
        reduce: A module-level function from gradients by parameter name, `(n, *shape)` or `(n, classes, *shape)` for n
            images, to a tensor; the tensors of all images are joined along the first dimension.
    """

    backward: Backward
    of: Literal["parameters", "first"]
    reduce: Callable[[dict[str, Tensor]], Tensor]


Need = Forward | Gradient | Tap | PerImage

DATA = Forward()
LOSS = Gradient(Backward(DATA, "loss"), of="parameters")
JACOBIAN = Gradient(Backward(DATA, "ones"), of="input")


def named(net: nn.Module, kinds: tuple[type[nn.Module], ...]) -> tuple[str, ...]:
    """Name the modules of some kinds, in definition order."""
    return tuple(name for name, module in net.named_modules() if isinstance(module, kinds))


def layers(net: nn.Module) -> tuple[str, ...]:
    """Name the convolution and linear modules, in definition order."""
    return named(net, LAYERS)


def layer_weights(net: nn.Module) -> list[str]:
    """Name the weights of convolutions and linear layers, in definition order; one that several share, once."""
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    return list(dict.fromkeys(names[id(net.get_submodule(layer).get_parameter("weight"))] for layer in layers(net)))


def relus(net: nn.Module) -> tuple[str, ...]:
    """Name the ReLU modules, in definition order.

    Raises:
        NotApplicableError: The network has none.
    """
    return named(net, (nn.ReLU, nn.ReLU6)) or _lacks("a ReLU module")


def called_relu(net: nn.Module) -> tuple[str, ...]:
    """Name the modules whose class name contains "ReLU", as several authors choose them: containers are among them.

    Raises:
        NotApplicableError: The network has none.
    """
    found = tuple(name for name, module in net.named_modules() if "ReLU" in type(module).__name__)
    return found or _lacks("a module called ReLU")


def blocks(net: nn.Module) -> tuple[str, ...]:
    """Name the blocks of a network: the members of its longest sequence of modules, the outermost of equals.

    These are the cells and reductions of a cell network, and the layers of a plain stack.

    Raises:
        NotApplicableError: The network has no sequence of two modules.
    """
    lists = [(name, m) for name, m in net.named_modules() if isinstance(m, (nn.Sequential, nn.ModuleList))]
    name, longest = max(lists, key=lambda item: len(item[1]), default=("", nn.ModuleList()))
    if len(longest) < 2:
        _lacks("a sequence of blocks")
    return tuple(f"{name}.{child}" if name else child for child, _ in longest.named_children())


def first_block(net: nn.Module) -> tuple[str, ...]:
    """Name the first block, whose input is what the stem gives."""
    return blocks(net)[:1]


def global_pool(net: nn.Module) -> tuple[str, ...]:
    """Name the last global pooling module, whose input is the feature map of the network.

    Raises:
        NotApplicableError: The network has none.
    """
    pools = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
    return named(net, pools)[-1:] or _lacks("a global pooling module, whose input would be its feature map")


def forward_of(need: Need) -> Forward:
    """Return the forward pass behind a need."""
    source = _source(need)
    return source.forward if isinstance(source, Backward) else source


def backward_of(need: Need) -> Backward | None:
    """Return the backward pass behind a need, if it has one."""
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
