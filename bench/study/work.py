"""What a study asks of every network: which proxies, with which batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Work:
    """What one network is scored for with one batch."""

    seed: int
    batch_size: int
    proxies: tuple[str, ...]


def work_items(proxies: Iterable[Any], batch_sizes: Sequence[int], seeds: Sequence[int]) -> tuple[Work, ...]:
    """Group proxies by seed and batch size: those named, or the one of each proxy's protocol."""
    proxies = list(proxies)
    sizes = list(batch_sizes) or sorted({proxy.batch_size for proxy in proxies})
    return tuple(
        Work(seed, size, names)
        for seed in seeds
        for size in sizes
        if (names := tuple(p.name for p in proxies if batch_sizes or p.batch_size == size))
    )
