"""A search for aggregates from beginning to end: scores, evolution, a random search beside it, and their test."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...atomic import write_atomically
from ...bench.results.board import Board, boards
from ...bench.scoring.store import Store
from ...bench.study.config import distinct
from ...bench.study.recipe import Recipe
from ...errors import ConfigError
from ...proxies import AGGREGATES, PROXIES
from ..engine.fitness import Objective
from ..engine.generations import State, check, evolve
from ..engine.pools import Outcome, PoolProblem, Table, outcomes, table, vocabulary
from ..language.programs import Program
from ..language.variation import Trees
from .config import EvolveConfig, Ground
from .found import Found

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
        notes: Boards that were left out, one line each.
    """

    state: State
    programs: dict[str, Program]
    outcomes: Sequence[Outcome]
    seconds: float
    notes: Sequence[str] = ()


def combine(config: EvolveConfig, *, each: Callable[[State], None] = lambda state: None) -> Combination:
    """Search for aggregates of proxies whose scores are known.

    Raises:
        ZcbenchError: Whatever the user has to mend.
    """
    reading = config.over
    if reading == "statistics":
        raise ConfigError("over: expected ranks or logs, statistics are no scores of proxies")
    both = config.objective == "both"
    if both and not config.engine.pareto:
        raise ConfigError("objective: expected engine.pareto with both, as neither is to be dominated")
    check(config.engine)
    fitted, others, proxies, notes = _tables(config)
    objectives: tuple[Objective, ...] = ("tau", "top") if config.objective == "both" else (config.objective,)
    problem = PoolProblem(fitted, reading, objectives, config.top)
    trees = Trees(vocabulary(proxies, config.engine.height_limit))
    for text in config.engine.start:
        trees.parse(text)
    folder = Path(config.out)
    folder.mkdir(parents=True, exist_ok=True)
    recipe = _recipe(config, fitted, proxies)
    state = evolve(problem, trees, config.engine, folder, recipe, each=each)
    # All immigrants: the same engine without selection, and as many programs.
    alone = dataclasses.replace(config.engine, immigrants=1.0, elite=0)
    (folder / "random").mkdir(exist_ok=True)
    drawn = evolve(problem, trees, alone, folder / "random", recipe | {"immigrants": 1.0})
    programs = {EVOLVED: _best(trees, state), RANDOM: _best(trees, drawn)}
    if both:
        texts = max(state.hall, key=lambda item: item[1][1])
        programs[TOP] = trees.express(trees.parse(texts[0]))
    found = outcomes(programs, fitted, others, reading, objectives, config.top)
    write_atomically(
        folder / "outcomes.parquet", pd.DataFrame([outcome.flat() for outcome in found]).to_parquet(index=False)
    )
    for program in programs.values():
        name = f"combined-{hashlib.sha256(f'{reading} {program}'.encode()).hexdigest()[:6]}"
        Found(name=name, program=str(program), over=reading, recipe=recipe).write(folder / "programs" / f"{name}.json")
    return Combination(state, programs, found, sum(record.wall_s for record in state.records), notes)


def _best(trees: Trees, state: State) -> Program:
    text, _ = max(state.hall, key=lambda item: item[1][0])
    return trees.express(trees.parse(text))


def _tables(config: EvolveConfig) -> tuple[list[Table], list[Table], list[str], list[str]]:
    """Return what to fit on, what to test on, the terminals, and which boards are left out."""
    if not config.grounds:
        raise ConfigError("grounds: expected at least one space and data set")
    results = Path(config.results)
    found = boards(results)
    rows = Store(results).read()
    chosen = {(board := _board(found, ground, config)).id: board for ground in config.grounds}
    proxies = _proxies(config, list(chosen.values()))
    whole = {board.id: table(_name(board, found), board.recipe, rows, proxies) for board in chosen.values()}
    fitted = [pool.halves(config.sample_seed)[0] if config.halves else pool for pool in whole.values()]
    others, notes = [], []
    seen: dict[str, set[str]] = {}
    for board, pool in zip(chosen.values(), fitted, strict=True):
        seen.setdefault(board.recipe.space, set()).update(pool.networks)
    if config.halves:
        for board, pool in zip(chosen.values(), whole.values(), strict=True):
            # Two boards of one space may be halved differently; what either was fitted on is no test of the other.
            left = [place for place, n in enumerate(pool.networks) if n not in seen[board.recipe.space]]
            others.append(pool.part("tested on", np.array(left)))
    for board in found:
        if board.id not in chosen:
            try:
                others.append(_other(board, _name(board, found), seen.get(board.recipe.space, set()), rows, proxies))
            except ConfigError as error:
                notes.append(f"left out: {error}")
    return fitted, others, proxies, notes


def _board(found: Sequence[Board], ground: Ground, config: EvolveConfig) -> Board:
    """Return the board of a ground; of several the one with all proxies, the most networks and the most seeds."""
    fitting = [
        board
        for board in found
        if (board.recipe.space, board.recipe.dataset) == (ground.space, ground.dataset)
        and ground.accuracy in {"default", board.recipe.truth.partition("/")[2]}
    ]
    if not fitting:
        known = ", ".join(dict.fromkeys(f"{b.recipe.space} on {b.recipe.dataset} ({b.recipe.truth})" for b in found))
        raise ConfigError(
            f"grounds: {config.results} has no scores of {ground.space} on {ground.dataset} ({ground.accuracy}): "
            f"expected one of {known}"
        )
    wanted = set(config.proxies)
    return max(
        fitting, key=lambda b: (wanted <= set(b.recipe.versions), len(b.recipe.accuracies), len(b.recipe.seeds), b.id)
    )


def _proxies(config: EvolveConfig, chosen: Sequence[Board]) -> list[str]:
    """Return the terminals: those named, or all that every board has and that a program file may name."""
    aggregates = {name for board in chosen for name in board.recipe.aggregates}
    for name in distinct("proxies", config.proxies):
        if name in aggregates or name in AGGREGATES:
            raise ConfigError(f"proxies: expected proxies that score a network by itself, got the aggregate {name}")
        PROXIES[name]
    common = [name for name in PROXIES if all(name in board.recipe.versions for board in chosen)]
    if not config.proxies and len(common) < 2:
        raise ConfigError(f"proxies: the boards have {', '.join(common) or 'none'} in common: expected two or more")
    return list(config.proxies) or common


def _name(board: Board, found: Sequence[Board]) -> str:
    recipe = board.recipe
    same = [b for b in found if _place(b.recipe) == _place(recipe)]
    return f"{recipe.space} on {recipe.dataset}, {recipe.truth}" + (f", board {board.id}" if len(same) > 1 else "")


def _place(recipe: Recipe) -> tuple[str, str, str]:
    return recipe.space, recipe.dataset, recipe.truth


def _other(board: Board, name: str, seen: set[str], rows: pd.DataFrame, proxies: Sequence[str]) -> Table:
    """Return the networks of a board that were not fitted on; where that leaves none, all, and their name says so."""
    unseen = {network: value for network, value in board.recipe.accuracies.items() if network not in seen}
    if not unseen:
        return table(f"{name}, networks fitted on", board.recipe, rows, proxies)
    return table(name, dataclasses.replace(board.recipe, accuracies=unseen), rows, proxies)


def _recipe(config: EvolveConfig, fitted: Sequence[Table], proxies: Sequence[str]) -> dict[str, Any]:
    engine = dataclasses.asdict(config.engine)
    engine.pop("generations")
    names = ("over", "objective", "top", "halves", "sample_seed")
    return {name: getattr(config, name) for name in names} | {
        "proxies": list(proxies),
        "pools": {pool.name: _digest(pool) for pool in fitted},
        "engine": engine,
    }


def _digest(pool: Table) -> str:
    """Return what tells a pool from one of other networks or other numbers."""
    digest = hashlib.sha256(pool.truth.tobytes())
    for name, values in pool.scores.items():
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:16]
