"""The pruning of a space: a proxy keeps a share of a pool, and what is kept is searched at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...bench.stats.top import size
from ...errors import ConfigError
from ...spaces import Space
from .asks import METHODS, Method, Score, Search, Setting, Train
from .benchmark import Benchmark
from .config import SearchConfig
from .outcome import Mean, grouped, mean
from .play import Run
from .sampling import check_pool, pool, ranked

#: Shares that a curve has, beside the one that the search keeps.
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


def keep(given: Setting) -> Search:
    """Score a pool, keep a share of it, and train networks of this share in a random order."""
    networks = pool(given)
    scores = yield Score(tuple(networks), given.proxy)
    kept = ranked(scores)[: size(len(networks), given.config.fraction)]
    for place in given.generator.sample(kept, len(kept)):
        yield Train(networks[place])
    return None


@dataclass(frozen=True)
class Survival:
    """How much of the best networks of a pool a proxy keeps, at every share.

    Attributes:
        proxy: Name of the proxy.
        shares: Shares of the pool that are kept, `(shares,)`; a proxy without information keeps as much of the best.
        kept: Share of the best networks that is kept: mean and interval over repeats, one for each share.
        values: The same of every repeat `(repeats, shares)`.
    """

    proxy: str
    shares: tuple[float, ...]
    kept: tuple[Mean, ...]
    values: NDArray[np.float64]


def survivals(runs: Sequence[Run], benchmark: Benchmark, top: int, fraction: float) -> list[Survival]:
    r"""Return the survival of every proxy over its runs of `keep`.

    $$\frac{|\,\text{the } k \text{ most accurate of the pool} \cap \text{the share with the highest scores}\,|}{k}$$

    Networks without a finite score are kept last. Of equal accuracies at the end of the top, the first of the pool
    counts.
    """
    shares = tuple(sorted({*SHARES, fraction}))
    found = []
    for _, own in grouped([run for run in runs if run.method == "keep"]):
        values = np.array([_survival(run, benchmark, top, shares) for run in own])
        found.append(Survival(own[0].proxy, shares, tuple(mean(column) for column in values.T), values))
    return found


def _survival(run: Run, benchmark: Benchmark, top: int, shares: Sequence[float]) -> list[float]:
    networks = [network for _, network in run.scored]
    best = set(ranked([benchmark.trained(network)[1] for network in networks])[:top])
    order = ranked(list(run.scored.values()))
    return [len(best.intersection(order[: size(len(networks), share)])) / len(best) for share in shares]


def _check(config: SearchConfig, space: Space) -> None:
    check_pool(config, space)
    if not 0 < config.fraction <= 1:
        raise ConfigError(f"fraction: expected above 0 and at most 1, got {config.fraction}")
    most = config.pool or config.shortlist or space.size
    if not 1 <= config.top <= most:
        raise ConfigError(f"top: expected 1 to {most} networks, the size of the pool, got {config.top}")


METHODS.add("keep", Method(keep, scores=True, check=_check))
