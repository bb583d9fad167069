"""The evolution (Algorithm 1 of EZNAS): DEAP's selection, variation and hall of fame over programs that never change.

Every draw comes from one generator whose state is saved with each generation, so a run that was killed ends as it
would have ended. Where programs are measured, and on what, is the problem's business.
"""

from __future__ import annotations

import copy
import json
import math
import random
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from deap import algorithms, base, tools

from ...atomic import write_atomically
from ...errors import ConfigError, ResultsError, one_line
from ...progress import Progress
from ..language.programs import Program
from .config import EngineConfig
from .fitness import NOTHING

G = TypeVar("G")

#: Programs grown in vain, for each that is wanted, after which there is no hope for more.
PATIENCE = 2000


class Problem(Protocol):
    """What programs are measured by."""

    objectives: int

    def valid(self, programs: Sequence[Program]) -> list[bool]:
        """Return which programs give numbers."""

    def behaviour(self, program: Program) -> Hashable:
        """Return what a valid program does on what it was tried on: programs that do the same there count once."""

    def draw(self, rng: random.Random) -> Any:
        """Draw what a generation is measured on."""

    def fitness(self, programs: Sequence[Program], drawn: Any) -> list[tuple[float, ...]]:
        """Return the fitness of every program on what was drawn, `NOTHING` where it has none.

        One number, or several of which none is to be dominated.
        """


class Representation(Protocol[G]):
    """What programs are written as while they are bred."""

    def grow(self, rng: random.Random, low: int, high: int) -> G:
        """Grow one at random."""

    def cross(self, rng: random.Random, first: G, second: G) -> G:
        """Make a child of two."""

    def mutate(self, rng: random.Random, genome: G) -> G:
        """Make a mutant."""

    def express(self, genome: G) -> Program:
        """Return the program in its canonical form."""

    def parse(self, text: str) -> G:
        """Return what `str` has made a text of, or what a program's text stands for."""


class _One(base.Fitness):  # type: ignore[misc]
    weights = (1.0,)


class _Smaller(base.Fitness):  # type: ignore[misc]
    weights = (1.0, -1.0)


class _TwoSmaller(base.Fitness):  # type: ignore[misc]
    weights = (1.0, 1.0, -1.0)


@dataclass
class Individual(Generic[G]):
    """A program, what it is bred as, and its fitness, as DEAP handles them."""

    genome: G
    program: Program
    fitness: base.Fitness


@dataclass(frozen=True)
class Generation:
    """What is recorded of a generation.

    Attributes:
        generation: Its number; 0 is the first.
        best: The highest fitness.
        median: Of those that rank anything.
        hall: The highest fitness so far.
        ranking: Share of the programs that rank anything.
        validity: Share of the programs grown or bred that were valid.
        diversity: Share of distinct sub-expressions among all nodes of the population.
        size: Mean number of nodes.
        height: Mean height.
        wall_s: Seconds it took.
        program: The best, as text.
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
    """All that a search has come to: nothing else decides how it goes on."""

    generation: int = -1
    rng: Any = None
    population: list[tuple[str, list[float]]] = field(default_factory=list)
    hall: list[tuple[str, list[float]]] = field(default_factory=list)
    records: list[Generation] = field(default_factory=list)


def evolve(
    problem: Problem,
    representation: Representation[G],
    config: EngineConfig,
    folder: Path,
    recipe: dict[str, Any],
    *,
    each: Callable[[State], None] = lambda state: None,
) -> State:
    """Search, from where a folder's state is, and return the last state.

    Args:
        problem: Terminals, primitives and fitness.
        representation: Trees or register machines.
        config: Hyper-parameters.
        folder: Where `state.json` is kept.
        recipe: All that decides how the search goes; a state of another recipe is not gone on from.
        each: Called after every generation with the state.

    Raises:
        ConfigError: A hyper-parameter makes no sense, a program to start with is none, or no valid program is found.
        ResultsError: The folder holds another search, or a torn state.
    """
    check(config)
    path = folder / "state.json"
    state = last_state(folder, recipe)
    search = _Search(problem, representation, config, state)
    progress = Progress("generations", config.generations + 1)
    progress.update(state.generation + 1)
    try:
        while state.generation < config.generations:
            search.step()
            document = asdict(state) | {"recipe": recipe}
            write_atomically(path, json.dumps(document, indent=1).encode())
            each(state)
            progress.advance(1)
    finally:
        progress.close()
    if not state.hall:
        raise ConfigError(
            "engine: no program of any generation ranks anything: expected accuracies that differ, or more generations"
        )
    return state


class _Search(Generic[G]):
    def __init__(self, problem: Problem, representation: Representation[G], config: EngineConfig, state: State) -> None:
        self.problem, self.representation, self.config, self.state = problem, representation, config, state
        self.rng = random.Random(config.seed)
        if state.rng is not None:
            self.rng.setstate(state.rng)
        kinds = {(False, 1): _One, (True, 1): _Smaller, (True, 2): _TwoSmaller}
        if (config.pareto, problem.objectives) not in kinds:
            raise ConfigError("engine: expected pareto with two objectives, and not more than two")
        self.kind = kinds[config.pareto, problem.objectives]
        self.toolbox = base.Toolbox()
        self.toolbox.register("clone", copy.copy)
        self.toolbox.register("mate", self._mate)
        self.toolbox.register("mutate", self._mutate)
        # Of a Pareto search, all that no other dominates: the first so many would be the best by the first objective.
        self.hall: Any = (
            tools.ParetoFront(similar=self._alike)
            if config.pareto
            else tools.HallOfFame(config.hall, similar=self._alike)
        )
        # Of equals, DEAP puts the last that comes first.
        self.hall.update([self._known(text, values) for text, values in reversed(state.hall)])
        self.tried = self.found = 0
        self.seen: dict[Hashable, Program] = {}
        self.genomes: dict[Program, G] = {}

    def step(self) -> None:
        """Make and measure the next generation."""
        started = time.perf_counter()
        self.tried = self.found = 0
        self.seen, self.genomes = {}, {}
        config, state = self.config, self.state
        if state.generation < 0:
            known = [self.representation.parse(text) for text in config.start]
            self.genomes |= {self.representation.express(genome): genome for genome in known}
        else:
            self._breed(config.population - math.floor(config.immigrants * config.population))
        self._grow(config.population)
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
        """Keep the best of the last population, and breed valid programs from it until the generation has so many."""
        config = self.config
        population = [self._known(text, values) for text, values in self.state.population]
        elite = self._elite(population)[:total]
        # Together, so that the workers share their networks.
        self.problem.valid([individual.program for individual in elite])
        for individual in elite:
            self._add(individual.program, individual.genome, total)
        with _stream(self.rng):
            parents: list[Individual[G]] = (
                tools.selNSGA2(population, min(config.parents, len(population)))
                if config.pareto
                else tools.selTournament(population, config.parents, config.tournament)
            )

        def breed(wanted: int) -> list[G]:
            with _stream(self.rng):
                bred = algorithms.varOr(parents, self.toolbox, wanted, config.crossover, config.mutation)
            return [individual.genome for individual in bred]

        self._fill(total, breed)

    def _elite(self, population: Sequence[Individual[G]]) -> list[Individual[G]]:
        """Return the best that rank anything; of those with one fitness, which mostly rank alike, the smallest."""
        ranking = [individual for individual in population if individual.fitness.values[0] > NOTHING]
        best = sorted(ranking, key=lambda i: (i.fitness.wvalues, -i.program.size), reverse=True)
        distinct: dict[float, Individual[G]] = {}
        for individual in best:
            measured = individual.fitness.values[0] + self.config.parsimony * individual.program.size
            distinct.setdefault(round(measured, 9), individual)
        return list(distinct.values())[: self.config.elite]

    def _grow(self, total: int) -> None:
        """Grow valid programs until the generation has so many."""
        low, high = self.config.min_height, self.config.max_height
        self._fill(total, lambda wanted: [self.representation.grow(self.rng, low, high) for _ in range(wanted)])

    def _fill(self, total: int, make: Callable[[int], list[G]]) -> None:
        """Add programs to the generation that are valid and do what no other of it does."""
        missing, tried = total - len(self.genomes), 0
        while len(self.genomes) < total:
            # At least a handful: their validity is tested together, which shares work.
            genomes = make(max(total - len(self.genomes), 8))
            tried += len(genomes)
            fresh: dict[Program, G] = {}
            for genome in genomes:
                program = self.representation.express(genome)
                if program.args and program.height <= self.config.height_limit and program not in self.genomes:
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
        if alike is not None and program.size < alike.size:  # the smaller of two that do the same
            del self.genomes[alike]
        if (alike is None or program.size < alike.size) and len(self.genomes) < total:
            self.seen[behaviour] = program
            self.genomes[program] = genome

    def _remember(self, individual: Individual[G]) -> None:
        """Take a program into the hall of fame; of two that do the same the smaller stays, if it is no worse."""
        for place, known in enumerate(self.hall):
            smaller = individual.program.size < known.program.size and individual.fitness >= known.fitness
            if smaller and self._alike(individual, known):
                self.hall.remove(place)
                break
        self.hall.update([individual])

    def _alike(self, first: Individual[G], second: Individual[G]) -> bool:
        return self.problem.behaviour(first.program) == self.problem.behaviour(second.program)

    # DEAP draws from Python's global generator, which `_stream` has lent it; so do the operators that it calls.
    def _mate(self, first: Individual[G], second: Individual[G]) -> tuple[Individual[G], Individual[G]]:
        return self._fresh(self.representation.cross(_lent(), first.genome, second.genome)), second

    def _mutate(self, individual: Individual[G]) -> tuple[Individual[G]]:
        return (self._fresh(self.representation.mutate(_lent(), individual.genome)),)

    def _fresh(self, genome: G, program: Program | None = None) -> Individual[G]:
        return Individual(genome, program or self.representation.express(genome), self.kind())

    def _measured(self, genome: G, program: Program, fitness: tuple[float, ...]) -> Individual[G]:
        taken = self.config.parsimony * program.size
        values = tuple(value - taken if value > NOTHING else value for value in fitness)
        individual = self._fresh(genome, program)
        individual.fitness.values = (*values, float(program.size)) if self.config.pareto else values
        return individual

    def _known(self, text: str, values: Sequence[float]) -> Individual[G]:
        individual = self._fresh(self.representation.parse(text))
        individual.fitness.values = tuple(values)
        return individual

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


@contextmanager
def _stream(rng: random.Random) -> Iterator[None]:
    """Lend a generator to DEAP, which draws from Python's global one, and put that back as it was."""
    before = random.getstate()
    random.setstate(rng.getstate())
    try:
        yield
    finally:
        rng.setstate(random.getstate())
        random.setstate(before)


def _lent() -> random.Random:
    return random._inst


def check(config: EngineConfig) -> None:
    """Check hyper-parameters, which a search does before it collects anything.

    Raises:
        ConfigError: They make no sense.
    """
    if config.generations < 0 or config.population < 2 or not config.parents >= 2 or config.tournament < 1:
        raise ConfigError(
            "engine: expected generations >= 0, population >= 2, parents >= 2 and tournament >= 1, got "
            f"{config.generations}, {config.population}, {config.parents}, {config.tournament}"
        )
    if not 0 <= config.elite < config.population:
        raise ConfigError(
            f"engine: expected an elite of 0 or more, below the population of {config.population}, got {config.elite}"
        )
    if not (0 <= config.immigrants <= 1 and config.crossover >= 0 and config.mutation >= 0):
        raise ConfigError("engine: expected shares and probabilities from 0 to 1")
    if config.crossover + config.mutation > 1:
        raise ConfigError(
            f"engine: expected crossover + mutation of at most 1, got {config.crossover} + {config.mutation}"
        )
    if not 1 <= config.min_height <= config.max_height <= config.height_limit:
        raise ConfigError(
            "engine: expected 1 <= min_height <= max_height <= height_limit, got "
            f"{config.min_height}, {config.max_height}, {config.height_limit}"
        )


def last_state(folder: Path, recipe: dict[str, Any]) -> State:
    """Return where a folder's search is, a state that has not begun if there is none.

    Args:
        folder: Where `state.json` is kept.
        recipe: All that decides how the search goes, or the part of it that is known.

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
        raise ResultsError(f"state {path} is torn ({one_line(str(error))[:80]}): delete it to begin anew") from None
    wanted = json.loads(json.dumps(recipe))
    differing = sorted(key for key in wanted if wanted[key] != found.get(key))
    if differing:
        raise ResultsError(
            f"out: {path.parent} holds another search ({', '.join(differing)} differ): choose another folder"
        )
    return state
