"""The device of a worker: the CPU, or one of the GPUs of this machine."""

from __future__ import annotations

import torch

from ..errors import ConfigError
from .local import place


def on_gpu(device: str) -> bool:
    """Return whether a device that a user names is a GPU of this machine.

    Args:
        device: `cpu`, `cuda`, or `auto` for a GPU where there is one.

    Raises:
        ConfigError: It is `cuda`, and there is no GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: expected cpu or auto, got cuda: torch finds no GPU on this machine")
    return device != "cpu" and torch.cuda.is_available()


def own_device(gpu: bool) -> torch.device:
    """Return the device of this worker; workers take the GPUs in turn, so that several may share one."""
    return torch.device("cuda", place() % torch.cuda.device_count()) if gpu else torch.device("cpu")
