"""Hyper-parameters of an evolution, and their check; the command line reads it, so nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import ConfigError

#: The proxies that the objective `gain` compares with, as formulas over layer tables: params, macs, synflow and meco.
RIVALS = ("sum(params)", "sum(macs)", "sum(synflow)", "sum(min_eigenvalue)")

#: Maximum height of a program in a file, and the most that the limit of a search can be.
HEIGHT_LIMIT = 64


@dataclass(frozen=True)
class EngineConfig:
    """Hyper-parameters of the evolution; the defaults are those of the EZNAS paper.

    Attributes:
        generations: Number of generations after the first.
        population: Number of programs in a generation.
        elite: Number of the best programs of a generation that also enter the next one, where they are measured on its
            own draw. Of programs with equal fitness only the smallest is kept. The elite never displaces immigrants.
        alike: Programs whose ranks of the networks correlate by more than this with those of a fitter program, in size,
            are neither parents nor of the elite; 1 for none. It is for programs over layers, ranks or logs.
        immigrants: Share of a generation that is grown at random.
        parents: Number of programs that are selected as parents of the next generation.
        tournament: Number of programs that are drawn for a tournament; the best of them becomes a parent.
        crossover: Probability that a child is a crossover of two parents.
        mutation: Probability that a child is a mutant of one parent; all other children are copies.
        min_height: Minimum height of programs that are grown at random.
        max_height: Maximum height of programs that are grown at random.
        height_limit: Maximum height of every program.
        parsimony: Penalty that is subtracted from the fitness for every node of a program.
        pareto: Whether to select by fitness and size together (NSGA-II) instead of by fitness alone.
        start: Programs, as texts, that are put into the first generation.
        hall: Number of programs in the hall of fame, the best ever met; with `pareto`, it holds all that no other
            program dominates.
        seed: Seed of every random draw of the evolution.
    """

    generations: int = 15
    population: int = 50
    elite: int = 0
    alike: float = 1.0
    immigrants: float = 0.5
    parents: int = 25
    tournament: int = 4
    crossover: float = 0.4
    mutation: float = 0.4
    min_height: int = 2
    max_height: int = 10
    height_limit: int = 10
    parsimony: float = 0.0
    pareto: bool = False
    start: list[str] = field(default_factory=list)
    hall: int = 20
    seed: int = 0


def check_engine(engine: EngineConfig) -> None:
    """Check that hyper-parameters are possible.

    Raises:
        ConfigError: A hyper-parameter is out of range.
    """
    if engine.generations < 0 or engine.population < 2 or engine.parents < 2 or engine.tournament < 1:
        raise ConfigError(
            "engine: expected generations >= 0, population >= 2, parents >= 2 and tournament >= 1, got "
            f"{engine.generations}, {engine.population}, {engine.parents}, {engine.tournament}"
        )
    if not 0 <= engine.elite < engine.population:
        raise ConfigError(
            f"engine: expected an elite of 0 or more, below the population of {engine.population}, got {engine.elite}"
        )
    if not 0 <= engine.alike <= 1:
        raise ConfigError(f"engine: expected alike from 0 to 1, got {engine.alike:g}")
    if not (0 <= engine.immigrants <= 1 and engine.crossover >= 0 and engine.mutation >= 0):
        raise ConfigError("engine: expected shares and probabilities from 0 to 1")
    if engine.crossover + engine.mutation > 1:
        raise ConfigError(
            f"engine: expected crossover + mutation of at most 1, got {engine.crossover} + {engine.mutation}"
        )
    if not 1 <= engine.min_height <= engine.max_height <= engine.height_limit:
        raise ConfigError(
            "engine: expected 1 <= min_height <= max_height <= height_limit, got "
            f"{engine.min_height}, {engine.max_height}, {engine.height_limit}"
        )
