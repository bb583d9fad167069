"""Which dimension of an activation has the channels, followed from operation to operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .calls import Call

_SECOND = frozenset({"batch_norm", "group_norm", "instance_norm", "local_response_norm"})
_LAST = frozenset({"layer_norm", "rms_norm"})
#: Functions that change the size of a dimension and keep its meaning.
_KEPT = frozenset({"add", "cat", "pad"})
_PARTS = frozenset({"chunk", "split", "tensor_split", "narrow", "__getitem__"})
_SWAPS = frozenset({"transpose", "swapaxes", "swapdims"})


def channel_dim(call: Call, given: Any, output: Any) -> int | None:
    """Return the dimension of the channels of the output of a call, None if it is not known.

    Args:
        call: The call.
        given: Its arguments, by position and by name.
        output: Its output.
    """
    if not isinstance(output, Tensor):
        output = next((t for t in output if isinstance(t, Tensor)), None) if isinstance(output, (list, tuple)) else None
    if output is None:
        return None
    if call.kind == "convolution" or call.name in _SECOND or "pool2d" in call.name:
        return 1
    if call.kind == "linear" or call.name in _LAST:
        return output.ndim - 1
    source = next((s for s in call.sources if not s.fixed and s.channels is not None), None)
    if source is None or source.channels is None:
        return None
    return _followed(call, source.channels, source.shape, given, tuple(output.shape))


def _followed(call: Call, channels: int, before: tuple[int, ...], given: Any, after: tuple[int, ...]) -> int | None:
    if call.name == "permute" or call.name in _SWAPS:
        return _moved(call.name, channels, len(before), given)
    same = len(before) == len(after)
    if same and (call.kind in _KEPT or call.name in _PARTS):
        return channels
    if before[: channels + 1] == after[: channels + 1]:
        return channels
    is_last = channels == len(before) - 1 and before[-1:] == after[-1:]
    return len(after) - 1 if is_last else None


def _moved(name: str, channels: int, dimensions: int, given: Any) -> int | None:
    """Return where a permutation puts a dimension: it is tried out on the numbers of the dimensions."""
    args, named = given
    numbers = torch.empty(*range(1, dimensions + 1), device="meta")
    moved: Tensor = getattr(numbers, name)(*args[1:], **{k: v for k, v in named.items() if k not in {"input", "self"}})
    return list(moved.shape).index(channels + 1)
