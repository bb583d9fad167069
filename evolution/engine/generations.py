"""The evolution (Algorithm 1 of EZNAS), with NSGA-II and the hall of fame from DEAP.

Every random draw comes from one generator, and its state is saved with each generation. A run that was killed therefore
ends with the same result as one that was not. The `Problem` measures programs; the evolution knows only their fitness.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from deap import base, tools

from ...atomic import write_atomically
from ...errors import ConfigError, ResultsError, in_words
from ...progress import Progress
from ..language.programs import Program
from .config import EngineConfig
from .fitness import NOTHING

G = TypeVar("G")

#: Number of attempts per wanted program after which the search for valid programs is given up.
PATIENCE = 2000


class Problem(Protocol):
    """A problem: it decides which programs are valid and measures their fitness."""

    objectives: int

    def valid(self, programs: Sequence[Program]) -> list[bool]:
        """Return, for every program, whether its scores are finite and not all equal."""

    def behaviour(self, program: Program) -> Hashable:
        """Return a key of what a valid program does; of programs with equal keys only one is kept.

        For `engine.alike` it is the bytes of float64 numbers `(n,)`: the ranks of the networks.
        """

    def draw(self, rng: random.Random) -> Any:
        """Draw the networks that a generation is measured on."""

    def fitness(self, programs: Sequence[Program], drawn: Any) -> list[tuple[float, ...]]:
        """Return the fitness of every program on the drawn networks, `NOTHING` if it has none.

        A fitness has one number per objective.
        """


class Representation(Protocol[G]):
    """A representation: the form of programs while they are bred, here called a genome."""

    def grow(self, rng: random.Random, low: int, high: int) -> G:
        """Grow a random genome."""

    def cross(self, rng: random.Random, first: G, second: G) -> G:
        """Return a child of two genomes."""

    def mutate(self, rng: random.Random, genome: G) -> G:
        """Return a mutant of a genome."""

    def express(self, genome: G) -> Program:
        """Return the program of a genome, in canonical form."""

    def parse(self, text: str) -> G:
        """Return the genome of a text, which is either the `str` of a genome or the text of a program."""


@dataclass
class Individual(Generic[G]):
    """A program with its genome and its fitness, in the form that DEAP expects."""

    genome: G
    program: Program
    fitness: base.Fitness


@dataclass(frozen=True)
class Generation:
    """The record of one generation.

    Attributes:
        best: Highest fitness of the generation.
        median: Median fitness of the programs that have a fitness.
        hall: Highest fitness of all generations so far.
        ranking: Share of the programs that have a fitness.
        validity: Share of valid programs among those that were grown or bred.
        diversity: Share of distinct subtrees among all nodes of the population.
        size: Mean number of nodes of a program.
        height: Mean height of a program.
        program: Best program of the generation, as text.
    """

    generation: int
    best: float
    median: float
    hall: float
    ranking: float
    validity: float
    diversity: float
    size: float
    height: float
    wall_s: float
    program: str


@dataclass
class State:
    """The complete state of a search; it alone determines how the search continues."""

    generation: int = -1
    rng: Any = None
    population: list[tuple[str, list[float]]] = field(default_factory=list)
    hall: list[tuple[str, list[float]]] = field(default_factory=list)
    records: list[Generation] = field(default_factory=list)


def evolve(
    problem: Problem,
    representation: Representation[G],
    engine: EngineConfig,
    folder: Path,
    recipe: dict[str, Any],
    *,
    each: Callable[[State], None] = lambda state: None,
) -> State:
    """Run the search, or continue it from the state in a folder, and return the last state.

    Args:
        problem: Problem that measures the programs.
        representation: Trees or register machines.
        engine: Hyper-parameters, checked with `check_engine`.
        folder: Folder of `state.json`.
        recipe: Every value that influences the search. A state with another recipe is refused.
        each: Function that is called with the state after every generation.

    Raises:
        ConfigError: Too few valid programs are found, or no program has a fitness.
        ProgramError: A program in `engine.start` is not valid.
        ResultsError: The folder holds another search, or a torn state.
    """
    path = folder / "state.json"
    state = last_state(folder, recipe)
    search = _Search(problem, representation, engine, state)
    with Progress("generations", engine.generations + 1) as progress:
        progress.update(state.generation + 1)
        while state.generation < engine.generations:
            search.step()
            document = asdict(state) | {"recipe": recipe}
            write_atomically(path, json.dumps(document, indent=1).encode())
            each(state)
            progress.advance(1)
    if not state.hall:
        raise ConfigError(
            "engine: no program of any generation ranks anything: expected accuracies that differ, or more generations"
        )
    return state


class _Search(Generic[G]):
    def __init__(self, problem: Problem, representation: Representation[G], engine: EngineConfig, state: State) -> None:
        self.problem, self.representation, self.engine, self.state = problem, representation, engine, state
        self.rng = random.Random(engine.seed)
        if state.rng is not None:
            self.rng.setstate(state.rng)
        # A Pareto search also minimises the size.
        weights = (1.0,) * problem.objectives + (-1.0,) * engine.pareto
        self.kind = type("Fitness", (base.Fitness,), {"weights": weights})
        # In a Pareto search the hall has no maximum size, because DEAP would keep the best by the first objective.
        self.hall: Any = (
            tools.ParetoFront(similar=self._alike)
            if engine.pareto
            else tools.HallOfFame(engine.hall, similar=self._alike)
        )
        # Reversed, because DEAP puts the last of equal individuals first.
        self.hall.update([self._known(text, values) for text, values in reversed(state.hall)])
        self.tried = self.found = 0
        self.seen: dict[Hashable, Program] = {}
        self.genomes: dict[Program, G] = {}

    def step(self) -> None:
        """Breed and measure the next generation."""
        started = time.perf_counter()
        self.tried = self.found = 0
        self.seen, self.genomes = {}, {}
        engine, state = self.engine, self.state
        if state.generation < 0:
            known = [self.representation.parse(text) for text in engine.start]
            self.genomes |= {self.representation.express(genome): genome for genome in known}
        else:
            self._breed(engine.population - math.floor(engine.immigrants * engine.population))
        low, high = engine.min_height, engine.max_height
        self._fill(engine.population, lambda: self.representation.grow(self.rng, low, high))
        genomes = self.genomes
        drawn = self.problem.draw(self.rng)
        fitness = self.problem.fitness(list(genomes), drawn)
        population = [self._measured(g, p, f) for (p, g), f in zip(genomes.items(), fitness, strict=True)]
        for individual in population:
            if individual.fitness.values[0] > NOTHING:
                self._remember(individual)
        state.generation += 1
        state.population = [(str(i.genome), list(i.fitness.values)) for i in population]
        state.hall = [(str(i.genome), list(i.fitness.values)) for i in self.hall]
        state.records.append(self._record(population, time.perf_counter() - started))
        state.rng = self.rng.getstate()

    def _breed(self, total: int) -> None:
        """Take the elite of the last population, and breed valid programs from it until there are `total` programs."""
        population = self._unlike([self._known(text, values) for text, values in self.state.population])
        elite = self._elite(population)[:total]
        # One call for all of them, so that each network is loaded once.
        self.problem.valid([individual.program for individual in elite])
        for individual in elite:
            self._add(individual.program, individual.genome, total)
        parents = self._parents(population)

        self._fill(total, lambda: self._child(parents))

    def _parents(self, population: Sequence[Individual[G]]) -> list[Individual[G]]:
        engine = self.engine
        if engine.pareto:
            best: list[Individual[G]] = tools.selNSGA2(population, min(engine.parents, len(population)))
            return best
        tournaments = ([self.rng.choice(population) for _ in range(engine.tournament)] for _ in range(engine.parents))
        return [max(drawn, key=lambda i: i.fitness) for drawn in tournaments]

    def _child(self, parents: Sequence[Individual[G]]) -> G:
        drawn = self.rng.random()
        if drawn < self.engine.crossover:
            first, second = self.rng.sample(parents, 2)
            return self.representation.cross(self.rng, first.genome, second.genome)
        parent = self.rng.choice(parents).genome
        if drawn < self.engine.crossover + self.engine.mutation:
            return self.representation.mutate(self.rng, parent)
        return parent

    @staticmethod
    def _ranking(population: Sequence[Individual[G]]) -> list[Individual[G]]:
        """Return the programs that have a fitness, the best first, and of equally fit ones the smallest."""
        ranking = [individual for individual in population if individual.fitness.values[0] > NOTHING]
        return sorted(ranking, key=lambda i: (i.fitness.wvalues, -i.program.size), reverse=True)

    def _unlike(self, population: Sequence[Individual[G]]) -> Sequence[Individual[G]]:
        """Return a population without programs that rank much like a fitter one, unless that leaves fewer than two."""
        if self.engine.alike == 1:
            return population
        best = self._ranking(population)
        if len(best) < 2:
            return population
        keys: list[Any] = [self.problem.behaviour(individual.program) for individual in best]
        # Rounded, so that the last digits of a sum decide nothing.
        likeness = np.abs(np.corrcoef([np.frombuffer(key) for key in keys])).round(9)
        kept: list[int] = []
        for place in range(len(best)):
            if not (likeness[place, kept] > self.engine.alike).any():
                kept.append(place)
        return [best[place] for place in kept] if len(kept) > 1 else population

    def _elite(self, population: Sequence[Individual[G]]) -> list[Individual[G]]:
        """Return the best programs; of those with equal fitness, which mostly rank alike, only the smallest."""
        distinct: dict[float, Individual[G]] = {}
        for individual in self._ranking(population):
            measured = individual.fitness.values[0] + self.engine.parsimony * individual.program.size
            distinct.setdefault(round(measured, 9), individual)
        return list(distinct.values())[: self.engine.elite]

    def _fill(self, total: int, make: Callable[[], G]) -> None:
        """Add valid programs of distinct behaviour until the generation has `total` programs."""
        missing, tried = total - len(self.genomes), 0
        while len(self.genomes) < total:
            # At least eight at a time, because programs that are tested together share work.
            genomes = [make() for _ in range(max(total - len(self.genomes), 8))]
            tried += len(genomes)
            fresh: dict[Program, G] = {}
            for genome in genomes:
                program = self.representation.express(genome)
                if program.args and program.height <= self.engine.height_limit and program not in self.genomes:
                    fresh.setdefault(program, genome)
            valid = self.problem.valid(list(fresh))
            self.found += sum(valid)
            for (program, genome), fits in zip(fresh.items(), valid, strict=True):
                if fits:
                    self._add(program, genome, total)
            if tried > PATIENCE * (1 + missing):
                raise ConfigError(
                    f"engine: of {tried} programs only {len(self.genomes)} are valid and distinct, {total} are wanted: "
                    "expected a smaller population, higher trees or other terminals"
                )
        self.tried += tried

    def _add(self, program: Program, genome: G, total: int) -> None:
        behaviour = self.problem.behaviour(program)
        alike = self.seen.get(behaviour)
        if alike is not None and program.size < alike.size:  # the smaller of two with equal behaviour stays
            del self.genomes[alike]
        if (alike is None or program.size < alike.size) and len(self.genomes) < total:
            self.seen[behaviour] = program
            self.genomes[program] = genome

    def _remember(self, individual: Individual[G]) -> None:
        """Add a program to the hall of fame; it replaces a larger one of the same behaviour if it is no worse."""
        for place, known in enumerate(self.hall):
            smaller = individual.program.size < known.program.size and individual.fitness >= known.fitness
            if smaller and self._alike(individual, known):
                self.hall.remove(place)
                break
        self.hall.update([individual])

    def _alike(self, first: Individual[G], second: Individual[G]) -> bool:
        return self.problem.behaviour(first.program) == self.problem.behaviour(second.program)

    def _measured(self, genome: G, program: Program, fitness: tuple[float, ...]) -> Individual[G]:
        taken = self.engine.parsimony * program.size
        values = tuple(value - taken if value > NOTHING else value for value in fitness)
        size = (float(program.size),) if self.engine.pareto else ()
        return Individual(genome, program, self.kind((*values, *size)))

    def _known(self, text: str, values: Sequence[float]) -> Individual[G]:
        genome = self.representation.parse(text)
        return Individual(genome, self.representation.express(genome), self.kind(values))

    def _record(self, population: Sequence[Individual[G]], wall_s: float) -> Generation:
        values = np.array([i.fitness.values[0] for i in population])
        ranking = values > NOTHING
        best = max(population, key=lambda i: i.fitness.values[0])
        nodes = [node for i in population for node in i.program.nodes()]
        return Generation(
            generation=self.state.generation,
            best=float(values.max()),
            median=float(np.median(values[ranking])) if ranking.any() else math.nan,
            hall=float(self.hall[0].fitness.values[0]) if len(self.hall) else math.nan,
            ranking=float(ranking.mean()),
            validity=self.found / self.tried if self.tried else 1.0,
            diversity=len(set(nodes)) / len(nodes),
            size=float(np.mean([i.program.size for i in population])),
            height=float(np.mean([i.program.height for i in population])),
            wall_s=round(wall_s, 3),
            program=str(best.program),
        )


def programs(
    representation: Representation[G], listed: Sequence[tuple[str, Sequence[float]]]
) -> list[tuple[Program, float]]:
    """Return the programs of a population or of a hall of fame, each with its first fitness."""
    return [(representation.express(representation.parse(text)), values[0]) for text, values in listed]


def last_state(folder: Path, recipe: dict[str, Any]) -> State:
    """Return the state of the search in a folder, or a new state if there is none.

    The recipe may hold only the part that is known already.

    Raises:
        ResultsError: The folder holds another search, or a torn state.
    """
    path = folder / "state.json"
    if not path.exists():
        return State()
    try:
        document = json.loads(path.read_text("utf-8"))
        found = document.pop("recipe")
        records = [Generation(**record) for record in document.pop("records")]
        version, internal, gauss = document.pop("rng")
        rng = (version, tuple(internal), gauss)
        random.Random().setstate(rng)
        lists = {
            name: [(str(text), [*values]) for text, values in document.pop(name)] for name in ("population", "hall")
        }
        state = State(document["generation"], rng, **lists, records=records)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ResultsError(f"state {path} is torn ({in_words(error)}): delete it to start again") from None
    wanted = json.loads(json.dumps(recipe))
    differing = sorted(key for key in wanted if wanted[key] != found.get(key))
    if differing:
        raise ResultsError(
            f"out: {path.parent} holds another search ({', '.join(differing)} differ): choose another folder"
        )
    return state
