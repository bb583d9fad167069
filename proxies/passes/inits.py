"""The initialisations of a pass: pure functions from a network and a generator to parameters and buffers.

They never change the network. Random initialisations draw on the CPU, in the order of the modules, from a generator
with the seed of the probe. So a score does not depend on the device, nor on what ran before.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...errors import NotApplicableError

State = dict[str, Tensor]
Init = Callable[[nn.Module, torch.Generator], State]

NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm)
LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


def given(net: nn.Module, generator: torch.Generator) -> State:
    """Return the network's own parameters (shared storage) and copies of its buffers."""
    del generator
    state = {name: parameter.detach() for name, parameter in net.named_parameters()}
    return state | {name: buffer.detach().clone() for name, buffer in net.named_buffers()}


def absolute(net: nn.Module, generator: torch.Generator) -> State:
    """Return the absolute values of all parameters and buffers, as SynFlow does."""
    return {
        name: tensor.abs() if tensor.is_floating_point() else tensor for name, tensor in given(net, generator).items()
    }


def gaussian(net: nn.Module, generator: torch.Generator) -> State:
    """Draw conv and linear weights from N(0, 1), and reset biases and norms (Zen-NAS)."""
    return _redraw(given(net, generator), net, generator, lambda weight, linear: 1.0)


def kaiming_fan_out(net: nn.Module, generator: torch.Generator) -> State:
    """Draw conv weights from N(0, 2 / fan_out), linear ones from N(0, 0.01^2), and reset biases and norms (EZNAS)."""
    return _redraw(given(net, generator), net, generator, _fan_out)


def kaiming_fan_in(net: nn.Module, generator: torch.Generator) -> State:
    """Draw conv and linear weights from N(0, 2 / fan_in), and reset biases and norms (AZ-NAS, VKDNW)."""
    return _redraw(given(net, generator), net, generator, lambda weight, linear: 2.0**0.5 / weight[0].numel() ** 0.5)


def thin(net: nn.Module, generator: torch.Generator) -> State:
    """Draw as `kaiming_fan_out`, with all numbers of channels divided by those of the first convolution (TE-NAS).

    Raises:
        NotApplicableError: The network has other layers than convolutions without groups, batch norms and linear
            layers, or a number of channels that is not a multiple of those of the first convolution.
    """
    state = given(net, generator)
    found = [(n, m) for n, m in net.named_modules() if n and next(m.parameters(recurse=False), None) is not None]
    plain = all(isinstance(m, LAYERS) or (isinstance(m, NORMS[0]) and m.affine) for _, m in found)
    if not found or not plain or any(getattr(m, "groups", 1) != 1 for _, m in found):
        raise NotApplicableError("only convolutions without groups, batch norms and linear layers can be made thin")
    width = len(state[f"{found[0][0]}.weight"])
    for name, module in found:
        for key in ("weight", "bias", "running_mean", "running_var"):
            if (tensor := state.get(f"{name}.{key}")) is None:
                continue
            narrow = [True, *([True] if key == "weight" and isinstance(module, LAYERS) else [])]
            narrow[0] = name != found[-1][0]  # the number of classes stays
            narrow[-1] = narrow[-1] and not (len(narrow) == 2 and name == found[0][0])  # and the number of colours
            for dimension, divided in enumerate(narrow):
                if divided and tensor.shape[dimension] % width:
                    raise NotApplicableError(f"{name}: {tensor.shape[dimension]} is no multiple of {width} channels")
                if divided:
                    tensor = tensor.narrow(dimension, 0, tensor.shape[dimension] // width)
            state[f"{name}.{key}"] = tensor
    return _redraw(state, net, generator, _fan_out)


INITS: dict[str, Init] = {
    "given": given,
    "absolute": absolute,
    "gaussian": gaussian,
    "kaiming_fan_in": kaiming_fan_in,
    "kaiming_fan_out": kaiming_fan_out,
    "thin": thin,
}


def _fan_out(weight: Tensor, linear: bool) -> float:
    return 0.01 if linear else float((2.0 / (weight.shape[0] * weight[0][0].numel())) ** 0.5)


def _redraw(state: State, net: nn.Module, generator: torch.Generator, std: Callable[[Tensor, bool], float]) -> State:
    """Draw weights of standard deviation `std(weight, is_linear)`; set norm weights to 1 and all biases to 0."""
    for name, module in net.named_modules():
        prefix = f"{name}." if name else ""
        weight, bias = state.get(f"{prefix}weight"), state.get(f"{prefix}bias")
        if isinstance(module, LAYERS) and weight is not None:
            # `normal_` multiplies by the standard deviation in float32 on the CPU, as in the authors' codes.
            fresh = torch.empty(weight.shape).normal_(
                0.0, std(weight, isinstance(module, nn.Linear)), generator=generator
            )
            state[f"{prefix}weight"] = fresh.to(weight)
        elif isinstance(module, NORMS) and weight is not None:
            state[f"{prefix}weight"] = torch.ones_like(weight)
        if isinstance(module, (*LAYERS, *NORMS)) and bias is not None:
            state[f"{prefix}bias"] = torch.zeros_like(bias)
    return state
