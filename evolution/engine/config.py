"""Hyper-parameters of an evolution."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineConfig:
    """Hyper-parameters of the evolution; the defaults are the paper's.

    Attributes:
        generations: How often the population is replaced, after the first.
        population: Programs of a generation.
        elite: How many of the best programs of a generation, by the first objective, stand in the next too, measured on
            what that draws; of those with one fitness, which mostly rank alike, the smallest. No more than immigrants
            leave room for.
        immigrants: Share of a generation that is grown anew.
        parents: How many are selected to vary.
        tournament: Of how many drawn programs the best is selected.
        crossover: Probability that a child is a cross of two.
        mutation: That it is a mutant; otherwise it is a copy.
        min_height: Of programs grown at random.
        max_height: Of the same.
        height_limit: Of every program.
        parsimony: What every node of a program takes off its fitness.
        pareto: Select by fitness and size, none dominated by another (NSGA-II), rather than by fitness alone.
        start: Programs that the first generation begins with.
        hall: How many of the best programs ever met are kept; with `pareto` all that no other dominates.
        seed: Of every draw.
    """

    generations: int = 15
    population: int = 50
    elite: int = 0
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
