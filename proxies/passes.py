"""The passes that proxies read, as names: what is run, not who asks.

A `Forward` is (initialisation, inputs, mode), a `Backward` a forward and the scalar that is differentiated, a
`Gradient` what it is differentiated for, and a `Tap` reduces an activation, or an activation and its gradient, at
chosen modules while the pass runs, so that whole activations need not be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from ..errors import NotApplicableError
from .inits import LAYERS


@dataclass(frozen=True)
class Forward:
    """A forward pass.

    Attributes:
        init: Where parameters and buffers come from, a name of `inits.INITS`.
        inputs: Names of the input tensors, run one after the other on the same buffers. `data[i/n]` is the i-th of n
            equal slices of the images, and its loss is on their labels.
        mode: `train` or `eval`; `linear` is train mode with every norm layer replaced by the identity.
        dtype: Cast of parameters, buffers and inputs; None keeps the network's own.
        graph: Whether the pass can be differentiated.
    """

    init: str = "given"
    inputs: tuple[str, ...] = ("data",)
    mode: Literal["train", "eval", "linear"] = "train"
    dtype: torch.dtype | None = None
    graph: bool = True


@dataclass(frozen=True)
class Backward:
    """A backward pass from a scalar of the first input of a forward pass.

    Attributes:
        forward: The pass that is differentiated.
        objective: `loss`, the mean cross entropy with the labels; `ones`, the sum of all outputs; `samples`, for every
            image the sum of its outputs, one vectorised pass whose gradients have a first dimension of N.
        order: 1 for the gradient; 2 for the Hessian times the gradient of convolution and linear weights, which takes a
            backward pass that can be differentiated and another one through it.
    """

    forward: Forward
    objective: Literal["loss", "ones", "samples"]
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
            module only.
        at: Chooses modules of a network by name, in any order.
        reduce: A module-level function; its result is kept until the probe goes, so it should be small.
        side: Whether the activation is the module's `output` or its `input`.
    """

    source: Forward | Backward
    at: Callable[[nn.Module], tuple[str, ...]]
    reduce: Callable[..., Any]
    side: Literal["output", "input"] = "output"


Need = Forward | Gradient | Tap

DATA = Forward()
LOSS = Gradient(Backward(DATA, "loss"), of="parameters")
JACOBIAN = Gradient(Backward(DATA, "ones"), of="input")


def named(net: nn.Module, kinds: tuple[type[nn.Module], ...]) -> tuple[str, ...]:
    """Name the modules of some kinds, in definition order."""
    return tuple(name for name, module in net.named_modules() if isinstance(module, kinds))


def layers(net: nn.Module) -> tuple[str, ...]:
    """Name the convolution and linear modules, in definition order."""
    return named(net, LAYERS)


def relus(net: nn.Module) -> tuple[str, ...]:
    """Name the ReLU modules, in definition order.

    Raises:
        NotApplicableError: The network has none.
    """
    return named(net, (nn.ReLU, nn.ReLU6)) or _lacks("a ReLU module")


def global_pool(net: nn.Module) -> tuple[str, ...]:
    """Name the last global pooling module, whose input is the feature map of the network.

    Raises:
        NotApplicableError: The network has none.
    """
    pools = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
    return named(net, pools)[-1:] or _lacks("a global pooling module, whose input would be its feature map")


def forward_of(need: Need) -> Forward:
    """Return the forward pass behind a need."""
    source = need.backward if isinstance(need, Gradient) else need.source if isinstance(need, Tap) else need
    return source.forward if isinstance(source, Backward) else source


def backward_of(need: Need) -> Backward | None:
    """Return the backward pass behind a need, if it has one."""
    source = need.backward if isinstance(need, Gradient) else need.source if isinstance(need, Tap) else need
    return source if isinstance(source, Backward) else None


def _lacks(what: str) -> tuple[str, ...]:
    raise NotApplicableError(f"the network lacks {what}")
