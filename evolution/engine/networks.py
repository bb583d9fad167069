"""The problem of a search for programs: programs score networks from stored statistics, and rank them."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...engine import Workers
from ..data.bank import Handle
from ..data.evaluation import Aggregation, Plan, ToScalar
from ..data.statistics import Statistics
from ..language.programs import Program
from .config import RIVALS
from .fitness import NOTHING, Beside, Objective, Sign, Vector, coefficient, fitness

#: Number of networks of every ground on which a program must have finite scores before it is measured.
TRIAL = 2

#: Divisor of `Measure.exact`: at least `exact // HANDFUL` programs are measured at a time, so that few networks are
#: loaded for only a few programs.
HANDFUL = 5

#: Number of networks that one process evaluates at a time; their instances of equal shapes share operations.
BLOCK = 10

#: Smallest number of programs for which it pays to divide a block between workers.
FEWEST = 4

#: The networks that are drawn for a generation, by ground, as positions in the pool.
Drawn = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class Pool:
    """The pool of one ground at one batch size and seed: its networks, with statistics and accuracies.

    Attributes:
        name: Space, data set, batch size and seed, in words.
        handles: Handles of the statistics of the n networks.
        accuracies: Accuracies of the networks `(n,)`.
        lacking: Reasons why networks of the ground are left out, one for each of them.
    """

    name: str
    handles: Sequence[Handle]
    accuracies: Vector
    lacking: Sequence[str] = ()


@dataclass(frozen=True)
class Scoring:
    """The settings that determine the score of a network by a program; see `data.evaluation.Plan`."""

    to_scalar: ToScalar = "mean"
    aggregation: Aggregation = "mean"


@dataclass(frozen=True)
class Measure:
    """The settings that determine the fitness from scores.

    Attributes:
        draw: Number of networks of a ground that a generation is measured on; 0 for all.
        grounds: Number of grounds that a generation is measured on; 0 for all.
        objective: Coefficient on one ground.
        top: Share of the networks that count as the most accurate, for the objective `top`.
        sign: Whether coefficients may have `any` sign, must have the `same` sign on all grounds, or must be positive:
            a `higher` score is better.
        exact: Number of the best programs that are measured on all grounds; 0 for all. See `NetworkProblem.fitness`.
        rivals: Formulas that `gain` compares with.
    """

    draw: int = 20
    grounds: int = 4
    objective: Objective = "tau"
    top: float = 0.1
    sign: Sign = "any"
    exact: int = 0
    rivals: tuple[str, ...] = RIVALS


class NetworkProblem:
    """The problem of ranking networks by the scores of programs; scores are kept and never computed twice."""

    objectives = 1

    def __init__(self, pools: Sequence[Pool], scoring: Scoring, measure: Measure, workers: Workers) -> None:
        self.pools, self.scoring, self.measure, self.workers = pools, scoring, measure, workers
        self.starts = np.cumsum([0, *(len(pool.handles) for pool in pools)])
        self.handles = [handle for pool in pools for handle in pool.handles]
        self.trial = [n for start, end in itertools.pairwise(self.starts.tolist()) for n in range(start, end)[:TRIAL]]
        self._known: dict[Program, tuple[Vector, NDArray[np.bool_]]] = {}

    def valid(self, programs: Sequence[Program]) -> list[bool]:
        """Return, for every program, whether its scores on the trial networks are finite and not all equal."""
        left = list(programs)
        # Most programs fail on the first network, so it is tried before the others.
        for networks in (self.trial[:1], self.trial):
            if left:
                scores = self.scores(left, networks)
                left = [program for program, row in zip(left, scores, strict=True) if np.isfinite(row).all()]
        varied = {program for program in left if np.ptp(self.scores([program], self.trial)) > 0}
        return [program in varied for program in programs]

    def behaviour(self, program: Program) -> bytes:
        """Return the scores of a program on the trial networks, as bytes."""
        return self.scores([program], self.trial).tobytes()

    def draw(self, rng: random.Random) -> Drawn:
        """Draw grounds, and networks of each ground."""
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

    def beside(self, ground: int, chosen: tuple[int, ...]) -> Beside | None:
        """Return what programs are compared with on some networks of a ground, if their scores are known."""
        del ground, chosen
        return None

    def coefficients(
        self, programs: Sequence[Program], drawn: Drawn, objective: Objective | None = None
    ) -> NDArray[np.float64]:
        """Return the signed coefficient of every program on every drawn ground, `(programs, grounds)`.

        The coefficient is that of the search, or another `objective`.

        A program whose coefficient on a ground is NaN has NaN on later grounds too.
        """
        wanted = objective or self.measure.objective
        found = np.full((len(programs), len(drawn)), np.nan)
        left = list(range(len(programs)))
        # All grounds at once, so that no worker waits for the last block of a ground.
        self.scores(programs, [int(self.starts[ground]) + index for ground, own in drawn.items() for index in own])
        for column, (ground, chosen) in enumerate(drawn.items()):
            truth = self.pools[ground].accuracies[list(chosen)]
            rivals = self.beside(ground, chosen)
            flat = [int(self.starts[ground]) + index for index in chosen]
            for row, scores in zip(left, self.scores([programs[row] for row in left], flat), strict=True):
                found[row, column] = coefficient(scores, truth, wanted, self.measure.top, rivals)
            left = [row for row in left if not math.isnan(found[row, column])]
        return found

    def fitness(self, programs: Sequence[Program], drawn: Drawn) -> list[tuple[float, ...]]:
        """Return the fitness of every program on the drawn networks, `NOTHING` if it has none.

        The fitness is exact for the `measure.exact` best programs. Every other program is measured, ground by ground,
        only until it is certain that it is not one of them. Its fitness is then that on the grounds so far. This is an
        upper bound of its exact fitness, and not above the fitness of the best. Cheap grounds should come first.
        """
        grounds = self._stages(drawn)
        done = [0] * len(programs)
        found: list[list[float]] = [[] for _ in programs]
        bounds = [math.inf] * len(programs)
        while True:
            order = sorted(range(len(programs)), key=lambda row: -bounds[row])
            open_ = [row for row in order if done[row] < len(grounds) and bounds[row] > NOTHING]
            best = set(order[: self.measure.exact or None])
            due = [row for row in open_ if row in best or not done[row]]
            if not due:
                return [(bound,) for bound in bounds]
            # One stage at a time, because the set of the best may change. A few more programs than necessary are
            # measured, because the networks have to be loaded anyway.
            at = min(done[row] for row in due)
            count = max(sum(done[row] == at for row in due), self.measure.exact // HANDFUL)
            rows = [row for row in open_ if done[row] == at][:count]
            own = self.coefficients([programs[row] for row in rows], grounds[at]).tolist()
            for row, values in zip(rows, own, strict=True):
                found[row] += values
                done[row] += 1
                bounds[row] = fitness(found[row], self.measure.sign)

    def _stages(self, drawn: Drawn) -> list[Drawn]:
        """Return the drawn networks in the stages in which programs are measured on them.

        The first ground comes alone: most programs without a fitness have none there. The others follow one by one if a
        program may drop out behind each of them, and otherwise together.
        """
        first, *others = [{ground: chosen} for ground, chosen in drawn.items()]
        together = {ground: chosen for stage in others for ground, chosen in stage.items()}
        return [first, *others] if self.measure.exact or not together else [first, together]

    def scores(self, programs: Sequence[Program], networks: Sequence[int]) -> NDArray[np.float64]:
        """Return scores `(programs, networks)`; only unknown ones are computed."""
        total = len(self.handles)
        for program in programs:
            if program not in self._known:
                self._known[program] = np.full(total, np.nan), np.zeros(total, dtype=bool)
        tasks = []
        for block, shares in self._blocks(networks):
            known = np.array([self._known[program][1][list(block)] for program in programs]).reshape(-1, len(block))
            missing = tuple(program for program, row in zip(programs, known, strict=True) if not row.all())
            wanted = tuple(network for network, column in zip(block, known.T, strict=True) if not column.all())
            if wanted:
                parts = max(1, min(shares, len(missing) // FEWEST))
                tasks += [(wanted, missing[part::parts]) for part in range(parts)]
        map_ = self.workers.map if len(tasks) > 1 else map
        found = map_(_scores, [([self.handles[n] for n in wanted], own, self.scoring) for wanted, own in tasks])
        for (wanted, missing), table in zip(tasks, found, strict=True):
            for program, row in zip(missing, table, strict=True):
                values, known = self._known[program]
                values[list(wanted)], known[list(wanted)] = row, True
        return np.array([self._known[program][0][list(networks)] for program in programs]).reshape(len(programs), -1)

    def _blocks(self, networks: Sequence[int]) -> list[tuple[Sequence[int], int]]:
        """Return networks in blocks that processes evaluate, and in how many shares the programs of each are divided.

        A block is every k-th network of a ground, so that blocks take equally long and many instances have equal
        shapes. There is at least one block per worker, or one share of a block if there are too few networks.
        """
        many = len(networks) > BLOCK
        ground = np.searchsorted(self.starts, networks, side="right") if many else np.zeros(len(networks))
        parts = [np.asarray(networks)[ground == own].tolist() for own in np.unique(ground)]
        blocks: list[Sequence[int]] = []
        for part in parts:
            count = max(math.ceil(len(part) / BLOCK), min(math.ceil(self.workers.count / len(parts)), len(part)))
            blocks += [part[start::count] for start in range(count)]
        return [(block, max(1, self.workers.count // len(blocks))) for block in blocks]


def _scores(task: tuple[Sequence[Handle], tuple[Program, ...], Scoring]) -> NDArray[np.float64]:
    handles, programs, scoring = task
    return _plan(programs, scoring).scores([_load(handle) for handle in handles])


@functools.lru_cache(maxsize=4)
def _plan(programs: tuple[Program, ...], scoring: Scoring) -> Plan:
    return Plan(programs, scoring.to_scalar, scoring.aggregation)


@functools.lru_cache(maxsize=BLOCK)  # few, because mapped files take memory; the system caches the files
def _load(handle: Handle) -> Statistics:
    return handle.load()
