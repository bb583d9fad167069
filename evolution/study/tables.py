"""The tables of a search for aggregates: scores of a results folder, divided into those to fit on and all others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...bench.results.board import Board, boards
from ...bench.scoring.store import Store
from ...bench.study.config import distinct
from ...bench.study.recipe import Recipe
from ...errors import ConfigError
from ...proxies import AGGREGATES, PROXIES
from ..engine.pools import Table, table
from .config import Ground


@dataclass(frozen=True)
class Tables:
    """The tables of a search for aggregates.

    Attributes:
        fitted: Tables that programs are fitted on, one per ground.
        others: Tables that programs are tested on.
        proxies: Names of the proxies that programs may use.
        notes: One line for every board that is left out.
    """

    fitted: Sequence[Table]
    others: Sequence[Table]
    proxies: Sequence[str]
    notes: Sequence[str]


def read_tables(results: Path, grounds: Sequence[Ground], proxies: Sequence[str], halves: int | None) -> Tables:
    """Read the tables of a search from a results folder.

    Args:
        results: Results folder.
        grounds: Grounds to fit on.
        proxies: Proxies that programs may use; empty for all that every ground's board has.
        halves: Seed that divides networks into a half to fit on and a half to test on; None to fit on all.
    """
    found = boards(results)
    rows = Store(results).read()
    by_ground = [_board(found, ground, set(proxies), results) for ground in grounds]
    chosen = {board.id: board for board in by_ground}
    names = _proxies(proxies, list(chosen.values()))
    whole = [table(_name(board, found), board.recipe, rows, names) for board in chosen.values()]
    fitted = [pool if halves is None else pool.halves(halves)[0] for pool in whole]
    others, notes = [], []
    seen: dict[str, set[str]] = {}
    for board, pool in zip(chosen.values(), fitted, strict=True):
        seen.setdefault(board.recipe.space, set()).update(pool.networks)
    if halves is not None:
        for board, pool in zip(chosen.values(), whole, strict=True):
            # Two boards of one space may be halved differently, so the networks of either fitted half are left out.
            left = [place for place, n in enumerate(pool.networks) if n not in seen[board.recipe.space]]
            others.append(pool.part("tested on", np.array(left)))
    for board in found:
        if board.id not in chosen:
            name, fitted_on = _name(board, found), seen.get(board.recipe.space, set())
            unseen = {network: value for network, value in board.recipe.accuracies.items() if network not in fitted_on}
            if not unseen:  # all networks were fitted on; they are reported, and the name says so
                name, unseen = f"{name}, networks fitted on", dict(board.recipe.accuracies)
            try:
                others.append(table(name, dataclasses.replace(board.recipe, accuracies=unseen), rows, names))
            except ConfigError as error:
                notes.append(f"left out: {error}")
    return Tables(fitted, others, names, notes)


def _board(found: Sequence[Board], ground: Ground, wanted: set[str], results: Path) -> Board:
    """Return the board of a ground; of several, prefer one with all proxies, then most networks, then most seeds."""
    fitting = [
        board
        for board in found
        if (board.recipe.space, board.recipe.dataset) == (ground.space, ground.dataset)
        and ground.accuracy in {"default", board.recipe.truth.partition("/")[2]}
    ]
    if not fitting:
        known = ", ".join(dict.fromkeys(f"{b.recipe.space} on {b.recipe.dataset} ({b.recipe.truth})" for b in found))
        raise ConfigError(
            f"grounds: {results} has no scores of {ground.space} on {ground.dataset} ({ground.accuracy}): "
            f"expected one of {known}"
        )
    return max(
        fitting, key=lambda b: (wanted <= set(b.recipe.versions), len(b.recipe.accuracies), len(b.recipe.seeds), b.id)
    )


def _proxies(named: Sequence[str], chosen: Sequence[Board]) -> list[str]:
    """Return the named proxies, or all registered proxies that every board has."""
    aggregates = {name for board in chosen for name in board.recipe.aggregates}
    for name in distinct("proxies", named):
        if name in aggregates or name in AGGREGATES:
            raise ConfigError(f"proxies: expected proxies that score a network by itself, got the aggregate {name}")
        PROXIES[name]  # raises the error for an unknown name
    common = [name for name in PROXIES if all(name in board.recipe.versions for board in chosen)]
    if not named and len(common) < 2:
        raise ConfigError(f"proxies: the boards have {', '.join(common) or 'none'} in common: expected two or more")
    return list(named) or common


def _name(board: Board, found: Sequence[Board]) -> str:
    """Return the name of a board's table, with the board's id if another board has the same name."""

    def name(recipe: Recipe) -> str:
        return f"{recipe.space} on {recipe.dataset}, {recipe.truth}"

    same = [b for b in found if name(b.recipe) == name(board.recipe)]
    return name(board.recipe) + (f", board {board.id}" if len(same) > 1 else "")
