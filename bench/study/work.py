"""The work of a study: the proxies that every network is scored by, with seed and batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Work:
    """The proxies that a network is scored by with one batch.

    Attributes:
        seed: Seed of images, initialisation and noise.
        batch_size: Number of images.
        proxies: Names of the proxies.
    """

    seed: int
    batch_size: int
    proxies: tuple[str, ...]


def work_items(proxies: Iterable[Any], batch_sizes: Sequence[int], seeds: Sequence[int]) -> tuple[Work, ...]:
    """Group proxies by seed and batch size.

    Args:
        proxies: Proxies to compute.
        batch_sizes: Batch sizes of all proxies; empty for the batch size of the protocol of each proxy.
        seeds: Seeds of the study.
    """
    proxies = list(proxies)
    sizes = list(batch_sizes) or sorted({proxy.batch_size for proxy in proxies})
    return tuple(
        Work(seed, size, names)
        for seed in seeds
        for size in sizes
        if (names := tuple(p.name for p in proxies if batch_sizes or p.batch_size == size))
    )
