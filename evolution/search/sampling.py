"""Random search, and the best of N networks by score."""

from __future__ import annotations

import random

import numpy as np

from ...errors import ConfigError
from ...spaces import Space
from .asks import METHODS, Method, Score, Search, Setting, Train
from .config import SearchConfig


def distinct(space: Space, count: int, generator: random.Random) -> list[str]:
    """Draw `count` different networks of a space, all with the same probability; 0 for all, in a random order.

    A larger draw from the same state begins with the smaller one.
    """
    return [space.architecture(i) for i in space.sample(count or space.size, generator.randrange(2**32))]


def pool(given: Setting) -> list[str]:
    """Draw the pool of a method, all networks with the same probability and each once, in a random order."""
    space, config = given.space, given.config
    if not config.shortlist:
        return distinct(space, config.pool, given.generator)
    known = space.sample(config.shortlist, seed=0)
    order = np.random.RandomState(given.generator.randrange(2**32)).permutation(len(known))
    return [space.architecture(known[place]) for place in order[: config.pool or len(known)]]


def ranked(scores: list[float]) -> list[int]:
    """Return places in the order of scores, the highest first; equal scores keep their order, and NaN comes last."""
    return [int(place) for place in np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")]


def random_search(given: Setting) -> Search:
    """Train networks that are drawn at random, each once."""
    for network in distinct(given.space, min(given.config.budget, given.space.size), given.generator):
        yield Train(network)
    return None


def best(given: Setting) -> Search:
    """Score the networks of a pool, and train them in the order of their scores."""
    networks = pool(given)
    scores = yield Score(tuple(networks), given.proxy)
    for place in ranked(scores):
        yield Train(networks[place])
    return None


def check_pool(config: SearchConfig, space: Space) -> None:
    """Refuse a pool or a short list that is larger than what it is drawn from."""
    if not 0 <= config.shortlist <= space.size:
        raise ConfigError(f"shortlist: expected 0 to {space.size} networks of {space.name}, got {config.shortlist}")
    if not 0 <= config.pool <= (most := config.shortlist or space.size):
        raise ConfigError(f"pool: expected 0 to {most} networks of {space.name}, got {config.pool}")


METHODS.add("random", Method(random_search, scores=False))
METHODS.add("best", Method(best, scores=True, check=check_pool))
