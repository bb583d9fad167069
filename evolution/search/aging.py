"""Aging evolution (Real et al., AAAI 2019, algorithm 1), plain and with a proxy as in Abdelfattah et al., ICLR 2021.

The population and the tournament are those that the authors of NAS-Bench-201 use, 10 and 3 (their commands for
NATS-Bench). As in their code, a tournament is drawn with replacement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any

from ...errors import ConfigError
from ...spaces import Space
from .asks import METHODS, Method, Score, Search, Setting, Train
from .config import SearchConfig
from .sampling import check_pool, distinct, pool, ranked

#: Number of networks in the population, by default.
POPULATION = 10


def aging(given: Setting, *, warmup: bool = False, moves: bool = False) -> Search:
    """Train a population, then again and again a child of the best of a tournament, which replaces the oldest network.

    Args:
        given: The space, the proxy and the numbers.
        warmup: Whether the first population is the best by score of a pool; otherwise it is drawn at random.
        moves: Whether a child is the best by score of several mutants; otherwise it is the first mutant.
    """
    config, generator = given.config, given.generator
    size = config.population or POPULATION
    start = pool(given) if warmup else distinct(given.space, size, generator)
    if warmup:
        scores = yield Score(tuple(start), given.proxy)
        start = [start[place] for place in ranked(scores)[:size]]
    population: deque[tuple[float, str]] = deque(maxlen=size)
    for network in start:
        population.append(((yield Train(network)), network))
    while True:
        drawn = [generator.choice(population) for _ in range(config.tournament)]
        _, parent = max(drawn, key=lambda member: member[0])
        child = (yield from _best_mutant(given, parent)) if moves else given.space.mutate(parent, generator)
        population.append(((yield Train(child)), child))


def _best_mutant(given: Setting, parent: str) -> Generator[Score, Any, str]:
    mutants = [given.space.mutate(parent, given.generator) for _ in range(given.config.children)]
    mutants = list(dict.fromkeys(mutants))
    scores = yield Score(tuple(mutants), given.proxy)
    return mutants[ranked(scores)[0]]


def _check(config: SearchConfig, space: Space) -> None:
    """Refuse numbers that no population can have."""
    size = POPULATION if config.population is None else config.population
    if not 1 <= size <= space.size:
        raise ConfigError(f"population: expected 1 to {space.size} networks of {space.name}, got {size}")
    for name in ("tournament", "children"):
        if getattr(config, name) < 1:
            raise ConfigError(f"{name}: expected 1 or more, got {getattr(config, name)}")
    if type(space).mutate is Space.mutate:
        raise ConfigError(f"space: {space.name} has no mutations of a network: expected random or best as --method")


def _check_warmup(config: SearchConfig, space: Space) -> None:
    _check(config, space)
    check_pool(config, space)
    least = config.population or POPULATION
    if (size := config.pool or config.shortlist or space.size) < least:
        raise ConfigError(f"pool: expected at least the population of {least} networks, got {size}")


METHODS.add("aging", Method(aging, scores=False, check=_check))
METHODS.add("aging.warmup", Method(partial(aging, warmup=True), scores=True, check=_check_warmup))
METHODS.add("aging.moves", Method(partial(aging, moves=True), scores=True, check=_check))
