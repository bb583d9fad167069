"""The record of a network: one run on a few images, of which every operation is seen."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...random_state import given_random_state
from .calls import Operations
from .isolation import Places
from .watch import Backend, Recorder


def record(net: Places, x: Tensor, *, training: bool, seed: int = 0) -> Operations:
    """Run a network and return its operations; the network does not change.

    Args:
        net: Network.
        x: Images, a few of them.
        training: Whether modules are in train mode.
        seed: Seed of what the network draws.
    """
    x = x.detach().clone()
    state = net.state()
    recorder = Recorder(net, state, x)
    with (
        net.given(state, training),
        given_random_state(seed, x.device),
        recorder.modules_noted(),
        torch.no_grad(),
        Backend(recorder),
        recorder,
    ):
        output = net.net(x)
    return recorder.finish(logits_of(output), state)


def logits_of(output: object) -> object:
    """Return the `logits` of an output that has them by name, such as those of Hugging Face; any other as it is."""
    return output.get("logits", output) if isinstance(output, Mapping) else getattr(output, "logits", output)
