"""One proxy against others: on every board that has it, by how much it ranks better than each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from ...errors import ConfigError, UnknownNameError, unknown_name
from ...proxies import AGGREGATES, PROXIES
from ..scoring.store import Store
from ..study.recipe import Recipe
from .board import Board, boards
from .pairs import Comparison, compare, families
from .panel import of_recipe
from .ranking import select
from .standing import BASELINES, baseline


@dataclass(frozen=True)
class Against:
    """One proxy against others on one board.

    Attributes:
        census: Whether the networks are all of the space; differences have no interval and no p-value then.
        comparisons: One for each rival and batch size; Holm's correction is over all of them.
    """

    board: Board
    census: bool
    comparisons: tuple[Comparison, ...]


def against(store: Store, first: str, others: Sequence[str], *, space: str = "", dataset: str = "") -> list[Against]:
    """Compare a proxy with others on every board that has all of them, pair by pair on the same resamples.

    The baselines params, macs and random are on every board. Two proxies are compared on the networks and seeds that
    both scored.

    Args:
        store: Results folder.
        first: Proxy or aggregate.
        others: Other proxies, aggregates or baselines.
        space: Only boards of this space; empty for all.
        dataset: Only boards of this data set; empty for all.

    Raises:
        ConfigError: A proxy stands on both sides or twice, none is named, or no board has all of them.
        UnknownNameError: No board has a proxy of that name.
        IncompleteError: A score is missing.
        ResultsError: The results cannot be read.
    """
    _check(first, others)
    found = [
        board
        for board in boards(store.folder)
        if space in {"", board.recipe.space} and dataset in {"", board.recipe.dataset}
    ]
    if not found:
        raise ConfigError(f"results: expected runs of {space or 'any space'} on {dataset or 'any data set'}, got none")
    for name in (first, *others):
        if name not in (known := {known for board in found for known in _names(board)}):
            if name in PROXIES:
                raise UnknownNameError(
                    f"{name} has no scores in {store.folder}: score it first: zcbench run --proxies {name}, with "
                    "--include if it is your own"
                )
            raise unknown_name("proxy of these results", name, known)
    ours = [board for board in found if {first, *others} <= _names(board)]
    if not ours:
        raise ConfigError(
            f"results: no board has all of {', '.join((first, *others))}: score them on the same networks, with one "
            "zcbench run"
        )
    return [_on(board, store, first, others) for board in ours]


def _check(first: str, others: Sequence[str]) -> None:
    if not others:
        raise ConfigError("with: expected the names of proxies to compare with, got none")
    if twice := next((name for place, name in enumerate(others) if name in others[:place]), ""):
        raise ConfigError(f"with: expected distinct names, got {twice} twice")
    if first in others:
        raise ConfigError(f"with: expected proxies other than {first}, got it on both sides")


def _names(board: Board) -> set[str]:
    return {*board.recipe.versions, *board.recipe.aggregates, *BASELINES}


def _on(board: Board, store: Store, first: str, others: Sequence[str]) -> Against:
    names = (first, *others)
    recipe = _only(board.recipe, names)
    scored = {*recipe.versions, *recipe.aggregates}
    extra = [baseline(board, name) for name in names if name not in scored]
    rows = pd.concat([*([select(store, recipe)] if recipe.work else []), *extra])
    sample = of_recipe(recipe, rows[rows["proxy"].isin(names)])
    place = {id(m): at for at, m in enumerate(sample.measured)}
    pairs = []
    for _, group in families(sample):
        at = {m.panel.proxy: place[id(m)] for m in group}
        pairs += [(at[first], at[other]) for other in others if first in at and other in at]
    found = compare(sample.measured, sample.truth, sample.weights, asked=dict.fromkeys(pairs))
    return Against(board, not recipe.resamples, tuple(found))


def _only(recipe: Recipe, names: Iterable[str]) -> Recipe:
    """Return the recipe of some proxies and aggregates alone, with the members that these read."""
    aggregates = tuple(name for name in recipe.aggregates if name in names)
    kept = {*names, *(member for name in aggregates for member in AGGREGATES[name].members)}
    work = [
        dataclasses.replace(each, proxies=tuple(name for name in each.proxies if name in kept)) for each in recipe.work
    ]
    versions = {name: version for name, version in recipe.versions.items() if name in kept}
    return dataclasses.replace(
        recipe, work=tuple(each for each in work if each.proxies), versions=versions, aggregates=aggregates
    )
