"""Initialisations a pass can ask for: pure functions from a network and a generator to its parameters and buffers.

The network is never written to. Random initialisations draw on the CPU, in the order of the modules, from a generator
seeded with the probe's seed, so a score does not depend on the device or on what ran before.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

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
    """Return the absolute value of every parameter and buffer, the linearisation of SynFlow."""
    return {
        name: tensor.abs() if tensor.is_floating_point() else tensor for name, tensor in given(net, generator).items()
    }


def gaussian(net: nn.Module, generator: torch.Generator) -> State:
    """Draw conv and linear weights from N(0, 1); biases 0, norms 1 and 0 (Zen-NAS)."""
    return _redraw(net, generator, lambda module: 1.0)


def kaiming_fan_out(net: nn.Module, generator: torch.Generator) -> State:
    """Draw conv weights from N(0, 2 / fan_out), linear ones from N(0, 0.01^2); biases 0, norms 1 and 0 (EZNAS)."""

    def std(module: nn.Module) -> float:
        if isinstance(module, nn.Linear):
            return 0.01
        weight = module.weight
        assert isinstance(weight, Tensor)
        fan_out = weight.shape[0] * weight[0][0].numel()
        return float((2.0 / fan_out) ** 0.5)

    return _redraw(net, generator, std)


INITS: dict[str, Init] = {
    "given": given,
    "absolute": absolute,
    "gaussian": gaussian,
    "kaiming_fan_out": kaiming_fan_out,
}


def _redraw(net: nn.Module, generator: torch.Generator, std: Callable[[nn.Module], float]) -> State:
    state = given(net, generator)
    for name, module in net.named_modules():
        prefix = f"{name}." if name else ""
        weight, bias = state.get(f"{prefix}weight"), state.get(f"{prefix}bias")
        if isinstance(module, LAYERS) and weight is not None:
            # The standard deviation multiplies in float32 on the CPU, as `normal_` does in the references.
            fresh = torch.empty(weight.shape).normal_(0.0, std(module), generator=generator)
            state[f"{prefix}weight"] = fresh.to(weight)
        elif isinstance(module, NORMS) and weight is not None:
            state[f"{prefix}weight"] = torch.ones_like(weight)
        if isinstance(module, (*LAYERS, *NORMS)) and bias is not None:
            state[f"{prefix}bias"] = torch.zeros_like(bias)
    return state
