"""A search for aggregates from beginning to end: scores, evolution, a random search beside it, and their test."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..bench.board import Board, boards
from ..bench.store import Store, write_atomically
from ..errors import ConfigError
from .aggregates import Outcome, PoolProblem, Table, outcomes, table, vocabulary
from .config import EvolveConfig
from .engine import State, evolve
from .found import Found
from .programs import Program
from .variation import Trees

#: How the programs of a report were found.
EVOLVED, RANDOM, TOP = "evolved", "random search, as many programs", "evolved, best among the most accurate"


@dataclass(frozen=True)
class Combination:
    """What a search for aggregates found.

    Attributes:
        state: Its last generation and hall of fame.
        programs: The best, by how they were found.
        outcomes: How these and single proxies rank what was fitted and what was not.
        seconds: Of the evolution.
    """

    state: State
    programs: dict[str, Program]
    outcomes: Sequence[Outcome]
    seconds: float


def combine(config: EvolveConfig, *, each: Callable[[State], None] = lambda state: None) -> Combination:
    """Search for aggregates of proxies whose scores are known.

    Raises:
        ZcbenchError: Whatever the user has to mend.
    """
    fitted, others, proxies = _tables(config)
    reading = config.over
    assert reading != "statistics"
    both = config.objective == "both"
    problem = PoolProblem(
        fitted, reading, ("tau", "top") if config.objective == "both" else (config.objective,), config.top
    )
    trees = Trees(vocabulary(proxies, config.engine.height_limit))
    folder = Path(config.out)
    folder.mkdir(parents=True, exist_ok=True)
    recipe = _recipe(config, fitted, proxies)
    state = evolve(problem, trees, config.engine, folder, recipe, each=each)
    # All immigrants: the same engine without selection, and as many programs.
    alone = dataclasses.replace(config.engine, immigrants=1.0)
    (folder / "random").mkdir(exist_ok=True)
    drawn = evolve(problem, trees, alone, folder / "random", recipe | {"immigrants": 1.0})
    programs = {EVOLVED: _best(trees, state), RANDOM: _best(trees, drawn)}
    if both:
        texts = max(state.hall, key=lambda item: item[1][1])
        programs[TOP] = trees.express(trees.parse(texts[0]))
    found = outcomes(programs, fitted, others, reading)
    write_atomically(
        folder / "outcomes.parquet", pd.DataFrame([outcome.flat() for outcome in found]).to_parquet(index=False)
    )
    for number, program in enumerate(programs.values(), start=1):
        name = f"combined-{number}"
        Found(name=name, program=str(program), over=reading, recipe=recipe).write(folder / "programs" / f"{name}.json")
    return Combination(state, programs, found, sum(record.wall_s for record in state.records))


def _best(trees: Trees, state: State) -> Program:
    text, _ = max(state.hall, key=lambda item: item[1][0])
    return trees.express(trees.parse(text))


def _tables(config: EvolveConfig) -> tuple[list[Table], list[Table], list[str]]:
    results = Path(config.results)
    found = boards(results)
    rows = Store(results).read()
    chosen = [_board(found, ground.space, ground.dataset, ground.accuracy, results) for ground in config.grounds]
    common = [name for name in chosen[0].recipe.versions if all(name in board.recipe.versions for board in chosen)]
    proxies = list(config.proxies) or [name for name in common if name not in chosen[0].recipe.aggregates]
    fitted, others = [], []
    for board in found:
        name = f"{board.recipe.space} on {board.recipe.dataset}, {board.recipe.truth}"
        if board not in chosen and not set(proxies) <= set(board.recipe.versions):
            continue
        whole = table(name, board.recipe, rows, proxies)
        if board not in chosen:
            others.append(whole)
        elif config.halves:
            fit, test = whole.halves(config.sample_seed)
            fitted.append(fit)
            others.append(test)
        else:
            fitted.append(whole)
    return fitted, others, proxies


def _board(found: Sequence[Board], space: str, dataset: str, accuracy: str, results: Path) -> Board:
    for board in found:
        recipe = board.recipe
        wanted = accuracy == "default" or recipe.truth.partition("/")[2] == accuracy
        if (recipe.space, recipe.dataset) == (space, dataset) and wanted:
            return board
    known = ", ".join(dict.fromkeys(f"{b.recipe.space} on {b.recipe.dataset} ({b.recipe.truth})" for b in found))
    raise ConfigError(f"grounds: {results} has no scores of {space} on {dataset} ({accuracy}): expected one of {known}")


def _recipe(config: EvolveConfig, fitted: Sequence[Table], proxies: Sequence[str]) -> dict[str, Any]:
    engine = dataclasses.asdict(config.engine)
    engine.pop("generations")
    pools = {pool.name: len(pool.truth) for pool in fitted}
    names = ("over", "objective", "top", "halves", "sample_seed")
    return {name: getattr(config, name) for name in names} | {
        "proxies": list(proxies),
        "pools": pools,
        "engine": engine,
    }
