"""What a search method is: a generator that asks for scores and for trainings, and is sent the answers.

A method knows neither the store of scores nor the table of accuracies, and never counts its budget: whoever plays it
answers, counts, and ends it. So every method is resumed, repeated and spread over workers in the same way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

from ...datasets.tasks import Task
from ...registry import Registry
from ...spaces import Space
from .config import SearchConfig


@dataclass(frozen=True)
class Score:
    """The question for the scores of networks by one proxy; the answer is a list of floats.

    In the answer, higher is better for every proxy, and a network without a finite score has a NaN. An aggregate ranks
    the networks of one question.
    """

    networks: tuple[str, ...]
    proxy: str


@dataclass(frozen=True)
class Train:
    """The question for the validation accuracy of a network after training; the answer is a float in percent."""

    network: str


#: A search: it yields questions, is sent their answers, and may return the networks that it has found.
Search = Generator[Score | Train, Any, tuple[str, ...] | None]


@dataclass(frozen=True)
class Setting:
    """What a method is given.

    Attributes:
        space: The space to search, with `draw`, `mutate`, `params` and `macs`.
        task: What the networks are for.
        proxy: Name of the proxy that guides the method; empty if it needs none.
        config: The numbers of the method, such as its population.
        generator: The only source of random draws.
    """

    space: Space
    task: Task
    proxy: str
    config: SearchConfig
    generator: random.Random


@dataclass(frozen=True)
class Method:
    """A search method.

    Attributes:
        search: Function that starts a search.
        scores: Whether it needs a proxy; it then runs once for each.
        finds: What a method finds that ends after `config.evaluations` networks: the network with the highest score, or
            a front of scores and sizes; empty for methods that train.
        trains: Whether it asks for trainings, so that the space needs accuracies.
        also: Function from the proxy that guides it to others whose scores it asks for.
        check: Function that raises a `ConfigError` for numbers that the method cannot run with.
    """

    search: Callable[[Setting], Search]
    scores: bool
    trains: bool = True
    also: Callable[[str], tuple[str, ...]] = lambda proxy: ()
    finds: Literal["", "best", "front"] = ""
    check: Callable[[SearchConfig, Space], None] = lambda config, space: None


#: All search methods, by name.
METHODS: Registry[Method] = Registry("search method")
