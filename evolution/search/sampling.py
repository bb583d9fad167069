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
    pool = distinct(given.space, given.config.pool, given.generator)
    scores = yield Score(tuple(pool), given.proxy)
    for place in ranked(scores):
        yield Train(pool[place])
    return None


def check_pool(config: SearchConfig, space: Space) -> None:
    """Refuse a pool that is larger than the space."""
    if not 0 <= config.pool <= space.size:
        raise ConfigError(f"pool: expected 0 to {space.size} networks of {space.name}, got {config.pool}")


METHODS.add("random", Method(random_search, scores=False))
METHODS.add("best", Method(best, scores=True, check=check_pool))
