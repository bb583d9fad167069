"""The evolution of Zen-NAS (Lin et al., ICCV 2021, algorithm 2): mutants of a population that keeps the best scores."""

from __future__ import annotations

import math
from functools import partial

from ....errors import ConfigError
from ....spaces import Space
from ..asks import METHODS, Method, Score, Search, Setting
from ..config import SearchConfig
from .limits import check_limits, limits

#: Number of networks in the population, by default.
POPULATION = 512
#: As long as the population has no more networks, mutants are those of the start.
FEW = 10
#: Number of characters of a network's text that an error shows.
LONG = 60


def zen(given: Setting, *, selects: bool = True) -> Search:
    """Score mutants that keep the limits, and let the worst networks leave a population that is too large.

    A mutant is the start with one place changed as long as there are few networks. Later it is a member of the
    population, drawn uniformly, with up to two places changed. A mutant that breaks a limit counts as an evaluation. A
    network may be in the population twice; it is scored once. A network without a score is the worst.

    The authors' code scores each mutant before it draws the next. Here `proposals` mutants are drawn before they are
    scored, so that workers can share them; with 1 the loop is that of the authors.

    Args:
        given: The space, the proxy and the numbers.
        selects: Whether the worst networks leave; otherwise all stay, and the scores do not matter.

    Raises:
        ConfigError: The start breaks a limit.
        ArchitectureError: The start is no network of the space.
    """
    config, generator, space = given.config, given.generator, given.space
    start, size = config.start or space.start, config.population or POPULATION
    allowed = limits(config, space, given.task)
    if broken := allowed.broken(start):
        text = start if len(start) <= LONG else f"{start[:LONG]}…"
        raise ConfigError(f"{broken} of the start {text}: choose another limit, or another --start")
    population: list[tuple[float, str]] = []
    left = config.evaluations
    while left:
        drawn = []
        for _ in range(min(config.proposals, left)):
            if len(population) <= FEW:
                drawn.append(space.mutate(start, generator))
            else:
                drawn.append(space.mutate_two_places(generator.choice(population)[1], generator))
        left -= len(drawn)
        kept = tuple(network for network in drawn if not allowed.broken(network))
        scores = (yield Score(kept, given.proxy)) if kept else []
        population += [(-math.inf if math.isnan(s) else s, network) for s, network in zip(scores, kept, strict=True)]
        while selects and len(population) > size:
            worst = min(range(len(population)), key=lambda place: population[place][0])
            del population[worst]
    return None


def _check(config: SearchConfig, space: Space) -> None:
    """Refuse numbers and spaces that the evolution cannot run with."""
    if config.population is not None and config.population <= FEW:
        raise ConfigError(
            f"population: expected more than {FEW} networks, because mutants of fewer are those of the start, got "
            f"{config.population}"
        )
    check_limits(config, space)


METHODS.add("zen", Method(zen, scores=True, trains=False, finds="best", check=_check))
METHODS.add("zen.random", Method(partial(zen, selects=False), scores=True, trains=False, finds="best", check=_check))
