"""A search for aggregates from beginning to end: evolution, a random search for comparison, and their test."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from ...atomic import write_atomically
from ..engine.generations import State, evolve, programs
from ..engine.linear import weighted_sum
from ..engine.pools import Outcome, PoolProblem, outcomes
from ..language.programs import Program
from ..language.variation import Trees
from .found import Found
from .resolve import AggregateSearch

#: How the programs of a report were found.
EVOLVED, RANDOM, TOP = "evolved", "random search, as many programs", "evolved, best among the most accurate"
LINEAR = "weighted sum, fitted"


@dataclass(frozen=True)
class Combination:
    """The result of a search for aggregates.

    Attributes:
        programs: Best programs, by how they were found.
        outcomes: How these programs and single proxies rank the fitted pools and all others.
        notes: One line for every board that was left out.
    """

    state: State
    programs: dict[str, Program]
    outcomes: Sequence[Outcome]
    seconds: float
    notes: Sequence[str] = ()


def combine(search: AggregateSearch, *, each: Callable[[State], None] = lambda state: None) -> Combination:
    """Run a search for aggregates, or continue it, write its best programs and test them."""
    trees, scale, out = search.trees, search.scale, search.out
    problem = PoolProblem(search.fitted, scale, search.objectives, search.top, search.members)
    (out / "random").mkdir(parents=True, exist_ok=True)
    state = evolve(problem, trees, search.engine, out, search.recipe, each=each)
    # All programs are immigrants: the same engine without selection, with as many programs.
    at_random = dataclasses.replace(search.engine, immigrants=1.0, elite=0)
    drawn = evolve(problem, trees, at_random, out / "random", search.recipe | {"immigrants": 1.0})
    plain = weighted_sum(search.fitted, scale, search.members)
    best = {EVOLVED: _best(trees, state), RANDOM: _best(trees, drawn), LINEAR: plain}
    if len(search.objectives) > 1:
        best[TOP] = _best(trees, state, objective=1)
    ranked = outcomes(best, search.fitted, search.others, scale, search.objectives, search.top)
    write_atomically(out / "outcomes.parquet", pd.DataFrame(ranked).to_parquet(index=False))
    for how, program in best.items():
        digest = hashlib.sha256(f"{scale} {program}".encode()).hexdigest()
        found = Found(name=f"combined-{digest[:6]}", program=str(program), over=scale, recipe=search.recipe)
        if how == LINEAR:
            found = dataclasses.replace(found, paper="a weighted sum, fitted by ridge regression")
        found.write(out / "programs" / f"{found.name}.json")
    return Combination(state, best, ranked, sum(record.wall_s for record in state.records), search.notes)


def _best(trees: Trees, state: State, objective: int = 0) -> Program:
    """Return the program of the hall of fame that is best by one of the objectives."""
    best = max(state.hall, key=lambda item: item[1][objective])
    return programs(trees, [best])[0][0]
