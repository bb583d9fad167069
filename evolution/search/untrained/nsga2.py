"""NSGA-II (Deb et al., IEEE Transactions on Evolutionary Computation 2002): a front of scores against sizes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from deap import base, tools

from ....errors import ConfigError
from ....spaces import Space
from ..asks import METHODS, Method, Score, Search, Setting
from ..config import SearchConfig
from .limits import Limits, check_limits, check_size, limits

#: Number of networks in the population, by default.
POPULATION = 100
#: Number of draws for each network that is wanted, after which a search ends because it finds no new ones.
PATIENCE = 200


class Fitness(base.Fitness):  # type: ignore[misc]
    """The score of a network, which is maximised, and its size, which is minimised."""

    weights = (1.0, -1.0)


@dataclass(frozen=True)
class Individual:
    """A network with its fitness, in the form that DEAP expects."""

    network: str
    fitness: Fitness


def nsga2(given: Setting, *, selects: bool = True) -> Search:
    """Evolve a population towards large scores and small sizes; parents and offspring compete for it together.

    The first population is drawn at random. A child is a mutant of the winner of a tournament of two: of the one that
    dominates, or else of the one in the less crowded part of its front. There is no crossover. A network that was
    evaluated before, or that breaks a limit, is drawn again. A network without a score leaves.

    Args:
        given: The space, the proxy and the numbers; `objective` is the size.
        selects: Whether there is a selection; otherwise all networks are drawn at random.

    Raises:
        ConfigError: The space has no such size, or fewer networks can be drawn than the population has.
    """
    config = given.config
    check_size("objective", config.objective, given.space, given.task)
    allowed = limits(config, given.space, given.task)
    size = min(config.population or POPULATION, config.evaluations)
    population: list[Individual] = []
    seen: set[str] = set()
    while len(seen) < config.evaluations:
        wanted = min(size, config.evaluations - len(seen))
        draws = _mutants(given, population) if selects and population else _at_random(given)
        children = tuple(_new(draws, wanted, seen, allowed))
        if not seen and not children:
            raise ConfigError(
                f"{allowed.names}: expected limits that a network of {given.space.name} keeps, got none that does in "
                f"{PATIENCE * wanted:,} random draws: choose wider limits"
            )
        if not seen and len(children) < size:
            raise ConfigError(
                f"population: expected at most {len(children)} networks, as many as were found that keep the limits, "
                f"got {size}"
            )
        if not children:
            return None
        seen.update(children)
        scores = yield Score(children, given.proxy)
        population += [
            Individual(network, Fitness((score, allowed.size(network, config.objective))))
            for network, score in zip(children, scores, strict=True)
            if not math.isnan(score)
        ]
        if selects:
            population = tools.selNSGA2(population, size)
    return None


def _at_random(given: Setting) -> Iterator[str]:
    while True:
        yield given.space.draw(given.generator)


def _mutants(given: Setting, population: Sequence[Individual]) -> Iterator[str]:
    while True:
        yield given.space.mutate(_winner(given.generator, population).network, given.generator)


def _new(draws: Iterator[str], wanted: int, seen: set[str], allowed: Limits) -> Iterator[str]:
    """Yield networks that are new and keep the limits, as long as they are found."""
    found: set[str] = set()
    for network in islice(draws, PATIENCE * wanted):
        if network not in seen and network not in found and not allowed.broken(network):
            found.add(network)
            yield network
            if len(found) == wanted:
                return


def _winner(generator: random.Random, population: Sequence[Individual]) -> Individual:
    first, second = generator.choice(population), generator.choice(population)
    if first.fitness.dominates(second.fitness):
        return first
    if second.fitness.dominates(first.fitness):
        return second
    return max(first, second, key=lambda individual: individual.fitness.crowding_dist)


def _check(config: SearchConfig, space: Space) -> None:
    """Refuse numbers that no population can have."""
    check_limits(config, space)
    size = POPULATION if config.population is None else config.population
    if size < 2:
        raise ConfigError(f"population: expected 2 networks or more, got {size}")


METHODS.add("nsga2", Method(nsga2, scores=True, trains=False, finds="front", check=_check))
METHODS.add(
    "nsga2.random",
    Method(lambda given: nsga2(given, selects=False), scores=True, trains=False, finds="front", check=_check),
)
