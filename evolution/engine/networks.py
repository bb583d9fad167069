"""Programs measured by how they rank trained networks, from stored statistics."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.bank import Handle
from ..data.evaluation import Aggregation, Plan, ToScalar
from ..data.statistics import Statistics
from ..data.workers import Workers
from ..language.programs import Program
from .fitness import NOTHING, Objective, Sign, Vector, coefficient, fitness

#: Networks of a ground that a program has to give numbers on before it is measured.
TRIAL = 2

#: Of the programs that are to be exact, this part is measured at a time, at least.
HANDFUL = 5

#: Networks that one process evaluates at a time: what is of equal shapes in all of them shares operations.
BLOCK = 10

#: What is drawn for a generation: networks by ground.
Drawn = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class Pool:
    """The networks of one ground.

    Attributes:
        name: Space, images, batch size and seed.
        handles: Their statistics.
        accuracies: Of the same networks `(n,)`.
        lacking: Why networks that belong here are left out.
    """

    name: str
    handles: Sequence[Handle]
    accuracies: Vector
    lacking: Sequence[str] = ()


@dataclass(frozen=True)
class Reading:
    """What makes a score of a program on a network, beside the program."""

    to_scalar: ToScalar = "mean"
    aggregation: Aggregation = "mean"


@dataclass(frozen=True)
class Measure:
    """What makes a fitness of scores.

    Attributes:
        draw: Networks of a ground that a generation is measured on; 0 for all.
        grounds: Grounds that it is measured on; 0 for all.
        objective: The coefficient at one ground.
        top: The share that is the most accurate, for the objective `top`.
        sign: Whether coefficients may have any sign, or must have the same at all grounds.
        exact: How many of the best are measured at all grounds; 0 for all. See `NetworkProblem.fitness`.
    """

    draw: int = 20
    grounds: int = 4
    objective: Objective = "tau"
    top: float = 0.1
    sign: Sign = "any"
    exact: int = 0


class NetworkProblem:
    """Scores of programs are kept, so that no block of networks is visited twice with one program.

    Args:
        pools: The networks of every ground.
        reading: What makes a score.
        measure: What makes a fitness.
        workers: Who evaluates.
    """

    objectives = 1

    def __init__(self, pools: Sequence[Pool], reading: Reading, measure: Measure, workers: Workers) -> None:
        self.pools, self.reading, self.measure, self.workers = pools, reading, measure, workers
        self.starts = np.cumsum([0, *(len(pool.handles) for pool in pools)])
        self.handles = [handle for pool in pools for handle in pool.handles]
        self.trial = [n for start, end in itertools.pairwise(self.starts.tolist()) for n in range(start, end)[:TRIAL]]
        self._known: dict[Program, tuple[Vector, NDArray[np.bool_]]] = {}

    def valid(self, programs: Sequence[Program]) -> list[bool]:
        """Return which programs give finite scores on few networks of every ground, and not the same on all of them."""
        left = list(programs)
        # Most fail on the first network, so that the others need not be asked.
        for networks in (self.trial[:1], self.trial):
            if left:
                scores = self.scores(left, networks)
                left = [program for program, row in zip(left, scores, strict=True) if np.isfinite(row).all()]
        varied = {program for program in left if np.ptp(self.scores([program], self.trial)) > 0}
        return [program in varied for program in programs]

    def behaviour(self, program: Program) -> bytes:
        """Return the scores of a program on the networks that it is tried on."""
        return self.scores([program], self.trial).tobytes()

    def draw(self, rng: random.Random) -> Drawn:
        """Draw grounds, and networks of each."""
        grounds = range(len(self.pools))
        chosen = rng.sample(grounds, min(self.measure.grounds or len(grounds), len(grounds)))
        drawn = {}
        for ground in sorted(chosen):
            size = len(self.pools[ground].handles)
            drawn[ground] = tuple(sorted(rng.sample(range(size), min(self.measure.draw or size, size))))
        return drawn

    def everything(self) -> Drawn:
        """Return all networks of all grounds."""
        return {ground: tuple(range(len(pool.handles))) for ground, pool in enumerate(self.pools)}

    def coefficients(self, programs: Sequence[Program], drawn: Drawn) -> NDArray[np.float64]:
        """Return how every program ranks at every ground that was drawn `(programs, grounds)`, signed.

        A program that ranks nothing at one ground is not taken to the next, where it is NaN too.
        """
        found = np.full((len(programs), len(drawn)), np.nan)
        left = list(range(len(programs)))
        for column, (ground, chosen) in enumerate(drawn.items()):
            truth = self.pools[ground].accuracies[list(chosen)]
            flat = [int(self.starts[ground]) + index for index in chosen]
            for row, scores in zip(left, self.scores([programs[row] for row in left], flat), strict=True):
                found[row, column] = coefficient(scores, truth, self.measure.objective, self.measure.top)
            left = [row for row in left if not math.isnan(found[row, column])]
        return found

    def fitness(self, programs: Sequence[Program], drawn: Drawn) -> list[tuple[float, ...]]:
        """Return the fitness of every program, `NOTHING` where it ranks nothing.

        A program that is not among the best so many goes no further than to the ground where that is certain, and has
        the least coefficient up to there: its fitness is no more than that, and no more than theirs. Grounds are gone
        through in their order, so cheap ones are best first.
        """
        grounds = [{ground: chosen} for ground, chosen in drawn.items()]
        found: list[list[float]] = [[] for _ in programs]
        bounds = [math.inf] * len(programs)
        while True:
            order = sorted(range(len(programs)), key=lambda row: -bounds[row])
            open_ = [row for row in order if len(found[row]) < len(grounds) and bounds[row] > NOTHING]
            best = set(order[: self.measure.exact or None])
            due = [row for row in open_ if row in best or not found[row]]
            if not due:
                return [(bound,) for bound in bounds]
            # One ground at a time, since who is among the best may change; not for a few alone, since networks have to
            # be read.
            at = min(len(found[row]) for row in due)
            count = max(sum(len(found[row]) == at for row in due), self.measure.exact // HANDFUL)
            rows = [row for row in open_ if len(found[row]) == at][:count]
            own = self.coefficients([programs[row] for row in rows], grounds[at])[:, 0].tolist()
            for row, value in zip(rows, own, strict=True):
                found[row].append(value)
                bounds[row] = fitness(found[row], self.measure.sign)

    def scores(self, programs: Sequence[Program], networks: Sequence[int]) -> NDArray[np.float64]:
        """Return scores `(programs, networks)`, computed where they are not known."""
        total = len(self.handles)
        for program in programs:
            if program not in self._known:
                self._known[program] = np.full(total, np.nan), np.zeros(total, dtype=bool)
        tasks = []
        # Every so manyth, so that blocks take equally long; one for each worker at least.
        count = max(math.ceil(len(networks) / BLOCK), min(self.workers.devices, len(networks)))
        for start in range(count):
            block = networks[start::count]
            known = np.array([self._known[program][1][list(block)] for program in programs]).reshape(-1, len(block))
            missing = tuple(program for program, row in zip(programs, known, strict=True) if not row.all())
            wanted = tuple(network for network, column in zip(block, known.T, strict=True) if not column.all())
            if wanted:
                tasks.append((wanted, missing))
        map_ = self.workers.map if len(tasks) > 1 else map
        found = map_(_scores, [([self.handles[n] for n in wanted], own, self.reading) for wanted, own in tasks])
        for (wanted, missing), table in zip(tasks, found, strict=True):
            for program, row in zip(missing, table, strict=True):
                values, known = self._known[program]
                values[list(wanted)], known[list(wanted)] = row, True
        return np.array([self._known[program][0][list(networks)] for program in programs]).reshape(len(programs), -1)


def _scores(task: tuple[Sequence[Handle], tuple[Program, ...], Reading]) -> NDArray[np.float64]:
    handles, programs, reading = task
    return _plan(programs, reading).scores([_load(handle) for handle in handles])


@functools.lru_cache(maxsize=4)
def _plan(programs: tuple[Program, ...], reading: Reading) -> Plan:
    return Plan(programs, reading.to_scalar, reading.aggregation)


@functools.lru_cache(maxsize=BLOCK)  # what is not mapped is not resident; the system keeps files at hand
def _load(handle: Handle) -> Statistics:
    return handle.load()
