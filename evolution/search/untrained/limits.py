"""The limits of a search: what a network may have of parameters, operations, layers or latency."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ....bench.study.config import listed
from ....datasets.tasks import Task
from ....errors import ConfigError
from ....proxies.aggregate import split
from ....spaces import Space
from ..config import SearchConfig
from .latency import LATENCY, Latencies

_PREFIX = "max_"


def check_size(setting: str, name: str, space: Space, task: Task) -> None:
    """Refuse the name of a size that networks of a space do not have.

    Raises:
        ConfigError: They do not have it; the error names the setting.
    """
    known = [*space.limited_sizes(space.start, task), LATENCY]
    if name not in known:
        raise ConfigError(f"{setting}: networks of {space.name} have no {name}, only {', '.join(known)}")


@dataclass(frozen=True)
class Limits:
    """The limits of a search.

    Attributes:
        most: The largest allowed value of a size, by its name; both ends of the range are allowed.
        latencies: Latencies of networks, read from a table or measured.
    """

    space: Space
    task: Task
    most: Mapping[str, float]
    latencies: Latencies

    @property
    def names(self) -> str:
        """The settings of the limits, as in the configuration."""
        return ", ".join(f"{_PREFIX}{name}" for name in self.most)

    def size(self, network: str, name: str) -> float:
        """Return a size of a network by its name."""
        if name == LATENCY:
            return self.latencies.of(network)
        return self.space.limited_sizes(network, self.task)[name]

    def broken(self, network: str) -> str:
        """Return the first limit that a network breaks, in words; an empty text if it keeps all of them."""
        sizes = self.space.limited_sizes(network, self.task) if self.most else {}
        for name, most in self.most.items():
            value = self.latencies.of(network) if name == LATENCY else sizes[name]
            if value > most:
                return f"{_PREFIX}{name}: expected at most {most:,.10g}, got {value:,.10g}"
        return ""


def check_limits(config: SearchConfig, space: Space) -> None:
    """Refuse wrong numbers, a population that is larger than the space, and spaces without mutations.

    Raises:
        ConfigError: There is a wrong number, or no network has a neighbour.
    """
    for name in ("evaluations", "proposals"):
        if getattr(config, name) < 1:
            raise ConfigError(f"{name}: expected 1 or more, got {getattr(config, name)}")
    if not space.is_open and (config.population or 0) > space.size:
        raise ConfigError(
            f"population: expected at most {space.size} networks, as many as {space.name} has, got {config.population}"
        )
    if aggregates := split(listed(config.proxy))[1]:
        raise ConfigError(
            f"proxy: expected one whose scores of two networks can be compared whenever they are scored, got "
            f"{aggregates[0].name}, which ranks a pool"
        )
    if type(space).mutate is Space.mutate:
        raise ConfigError(f"space: expected one with mutations of a network, got {space.name}")


def limits(config: SearchConfig, space: Space, task: Task) -> Limits:
    """Return the limits of a configuration: its settings that begin with `max_` and are not 0.

    Raises:
        ConfigError: A limit is negative or no number, or networks of the space have no such size.
        DataFileError: The table of latencies is faulty.
    """
    given = {name: value for name, value in dataclasses.asdict(config).items() if name.startswith(_PREFIX)}
    for name, value in given.items():
        if not 0 <= value < math.inf:
            raise ConfigError(f"{name}: expected 0 for no limit, or more, got {value}")
    most = {name.removeprefix(_PREFIX): value for name, value in given.items() if value}
    for name in most:
        check_size(f"{_PREFIX}{name}", name, space, task)
    return Limits(space, task, most, Latencies(space, task, Path(config.latencies) if config.latencies else None))
