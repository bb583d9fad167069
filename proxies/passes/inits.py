"""The initialisations of a pass: functions from the record of a network and its tensors to other tensors.

Random initialisations draw on the CPU, in the order in which the weights are defined, from a generator with the seed
of the probe. So a score does not depend on the device, nor on what ran before. A weight is what an operation uses,
whatever its name is and however it is parametrised.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...errors import NotApplicableError
from ..operations.calls import Call, Operations

State = dict[str, Tensor]
Init = Callable[[Operations, State, torch.Generator], State]


def given(operations: Operations, state: State, generator: torch.Generator) -> State:
    """Return the network's own tensors."""
    return state


def absolute(operations: Operations, state: State, generator: torch.Generator) -> State:
    """Return the absolute values of all tensors, as SynFlow does."""
    return {name: tensor.abs() if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def gaussian(operations: Operations, state: State, generator: torch.Generator) -> State:
    """Draw conv and linear weights from N(0, 1), and reset biases and norms (Zen-NAS)."""
    return _redraw(operations, state, generator, lambda shape, linear: 1.0)


def kaiming_fan_out(operations: Operations, state: State, generator: torch.Generator) -> State:
    """Draw conv weights from N(0, 2 / fan_out), linear ones from N(0, 0.01^2), and reset biases and norms (EZNAS)."""
    return _redraw(operations, state, generator, _fan_out)


def kaiming_fan_in(operations: Operations, state: State, generator: torch.Generator) -> State:
    """Draw conv and linear weights from N(0, 2 / fan_in), and reset biases and norms (AZ-NAS, VKDNW)."""
    return _redraw(operations, state, generator, lambda shape, linear: 2.0**0.5 / math.prod(shape[1:]) ** 0.5)


def thin(operations: Operations, state: State, generator: torch.Generator) -> State:
    """Draw as `kaiming_fan_out`, with all numbers of channels divided by those of the first convolution (TE-NAS).

    Raises:
        NotApplicableError: The network has parameters of other operations than convolutions without groups, batch norms
            and linear layers, or a number of channels that is not a multiple of those of the first convolution.
    """
    weights = [layer.name for layer in operations.weights]
    layers = [call for call in operations.running if call.is_layer]
    vectors = {call.bias for call in layers} | {name for call in operations.running for name in _of_batch_norm(call)}
    plain = all(call.name in _PLAIN and call.groups == 1 for call in layers)
    others = {name for name in operations.used - {*weights, *vectors} if state[name].numel() > 1}
    if not weights or not plain or others:
        raise NotApplicableError("only convolutions without groups, batch norms and linear layers can be made thin")
    first, last, width = weights[0], weights[-1], len(state[weights[0]])
    classes = {last} | {call.bias for call in layers if call.weight == last}
    result = dict(state)
    for name in sorted({*weights, *vectors} - {""}, key=operations.defined.index):
        tensor = state[name]
        dimensions = [] if name in classes else [0]
        dimensions += [1] if name in weights and name != first else []  # the colours stay
        for dimension in dimensions:
            if tensor.shape[dimension] % width:
                raise NotApplicableError(f"{name}: {tensor.shape[dimension]} is no multiple of {width} channels")
            tensor = tensor.narrow(dimension, 0, tensor.shape[dimension] // width)
        result[name] = tensor
    return _redraw(operations, result, generator, _fan_out)


INITS: dict[str, Init] = {
    "given": given,
    "absolute": absolute,
    "gaussian": gaussian,
    "kaiming_fan_in": kaiming_fan_in,
    "kaiming_fan_out": kaiming_fan_out,
    "thin": thin,
}


#: Layers that can be made thin.
_PLAIN = frozenset({"conv1d", "conv2d", "conv3d", "linear"})


def _of_batch_norm(call: Call) -> tuple[str, ...]:
    """Return the names of the vectors of a batch norm."""
    if call.name != "batch_norm":
        return ()
    return call.weight, call.bias, call.variance, call.variance.replace("running_var", "running_mean")


def _fan_out(shape: tuple[int, ...], linear: bool) -> float:
    return 0.01 if linear else (2.0 / (shape[0] * math.prod(shape[2:]))) ** 0.5


def _as_used(call: Call, weight: Tensor) -> tuple[int, ...]:
    """Return the shape `(outputs, inputs, ...)` of a weight: that of the record, unless it has been made thin."""
    shape = call.weight_shape if math.prod(call.weight_shape) == weight.numel() else tuple(weight.shape)
    return shape[::-1] if call.kind == "linear" and call.name != "linear" else shape


def _redraw(
    operations: Operations, state: State, generator: torch.Generator, std: Callable[[tuple[int, ...], bool], float]
) -> State:
    """Draw weights of standard deviation `std(shape, is_linear)`; set norm weights to 1 and all biases to 0.

    The shape `(outputs, inputs, ...)` is that of the weight as the operation uses it.
    """
    operations.covered("products", "every weight has to be drawn")
    result = dict(state)
    for layer in operations.weights:
        weight = state[layer.name]
        # `normal_` multiplies by the standard deviation in float32 on the CPU, as in the authors' codes.
        fresh = torch.empty(weight.shape, dtype=torch.float32, device="cpu")
        fresh.normal_(0.0, std(_as_used(layer.calls[0], weight), layer.calls[0].kind == "linear"), generator=generator)
        result[layer.name] = fresh.to(weight)
    for call in operations.running:
        resets = [(call.bias, 0.0)] if call.is_layer or call.kind == "norm" else []
        resets += [(call.weight, 1.0)] if call.kind == "norm" else []
        for name, number in resets:
            if name and name not in result:
                raise NotApplicableError(f"{name} of {call} is computed from parameters and cannot be reset")
            if name and name not in {layer.name for layer in operations.weights}:
                result[name] = torch.full_like(result[name], number)
    return result
