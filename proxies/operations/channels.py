"""Which dimension of an activation has the channels, followed from operation to operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .calls import Call

_SECOND = frozenset({"batch_norm", "group_norm", "instance_norm", "local_response_norm"})
_LAST = frozenset({"layer_norm", "rms_norm"})
#: Functions that arrange dimensions anew. Others keep what a dimension means, if they keep the number of dimensions.
_SWAPS = frozenset({"permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis", "t"})
_TURNS = frozenset({"T", "mT", "H", "mH", "rot90"})
_ARRANGES = _TURNS | {"view", "reshape", "view_as", "reshape_as", "einsum"}


def channel_dim(call: Call, given: Any, output: Any) -> int | None:
    """Return the dimension of the channels of the output of a call, None if it is not known.

    Args:
        call: The call.
        given: Its arguments, by position and by name.
        output: Its output.
    """
    made: list[Any] = [*output] if isinstance(output, (list, tuple)) else [output]
    shape = next((tuple(tensor.shape) for tensor in made if isinstance(tensor, Tensor)), None)
    if shape is None:
        return None
    if call.kind == "convolution" or call.name in _SECOND or "pool2d" in call.name:
        return 1
    if call.kind == "linear" or call.name in _LAST:
        return len(shape) - 1
    source = next((s for s in call.sources if not s.fixed and s.channels is not None), None)
    found = None
    if source is not None and source.channels is not None:
        found = _followed(call, source.channels, source.shape, given, shape)
    wide = [dimension for dimension, size in enumerate(shape) if dimension and size > 1]
    return wide[0] if found is None and len(wide) == 1 else found


def _followed(call: Call, channels: int, before: tuple[int, ...], given: Any, after: tuple[int, ...]) -> int | None:
    if call.name in _SWAPS:
        return _moved(call.name, channels, len(before), given)
    if len(before) == len(after) and call.kind != "product" and call.name not in _ARRANGES:
        return channels
    if call.name in _TURNS:
        return None
    if before[: channels + 1] == after[: channels + 1]:
        return channels
    is_last = channels == len(before) - 1 and before[-1:] == after[-1:]
    return len(after) - 1 if is_last else None


def _moved(name: str, channels: int, dimensions: int, given: Any) -> int | None:
    """Return where a permutation puts a dimension: it is tried out on the numbers of the dimensions."""
    args, named = given
    numbers = torch.empty(*range(1, dimensions + 1), device="meta")
    moved: Tensor = getattr(numbers, name)(*args[1:], **{k: v for k, v in named.items() if k not in {"input", "self"}})
    return int(list(moved.shape).index(channels + 1))
