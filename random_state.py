"""The global generators of torch, NumPy and Python: they are seeded for a while, and left as they were."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


@contextlib.contextmanager
def given_random_state(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the generators of torch, NumPy and Python, and restore them afterwards."""
    cuda = [device] if device.type == "cuda" else []
    with random_state_kept(), torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(seed)
        for d in cuda:
            torch.cuda.default_generators[d.index or 0].manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        yield


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore the CPU generators of torch, NumPy and Python afterwards."""
    of_torch, python, numpy = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(of_torch)
        random.setstate(python)
        np.random.set_state(numpy)


def random_state() -> tuple[Any, ...]:
    """Return the states of the CPU generators of torch, Python and NumPy, as plain values that can be compared."""
    _, keys, *rest = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), np.asarray(keys).tobytes(), rest
