"""One proxy against others: on every board that has it, by how much it ranks better than each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import ConfigError, UnknownNameError, unknown_name
from ...proxies import AGGREGATES, PROXIES
from ..stats.coefficients import mean_over_seeds
from ..stats.ranks import Vector
from ..stats.significance import Difference, differences
from ..study.recipe import Recipe
from .board import Board
from .pairs import Comparison, compare, families
from .panel import of_recipe
from .published.sources import boards_of, rows_of
from .ranking import with_aggregates
from .standing import BASELINES, baseline


@dataclass(frozen=True)
class Against:
    """One proxy against others on one board.

    Attributes:
        census: Whether the networks are all of the space; differences have no interval and no p-value then.
        comparisons: One for each rival and batch size; Holm's correction is over all of them.
        tau: Kendall's tau-b of every proxy, and behind it that of every resample `(1 + resamples,)`; means over seeds,
            positive where a proxy ranks as it claims. Empty if a proxy has several batch sizes.
    """

    board: Board
    census: bool
    comparisons: tuple[Comparison, ...]
    tau: Mapping[str, Vector] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Lowest:
    """One proxy against another over several boards, each by its lowest Kendall's tau.

    Attributes:
        first_on: Board on which the first proxy has its lowest tau.
        second_on: Board on which the second has its lowest tau.
        tau: The lowest tau of both, and their difference over joint resamples of all boards.
    """

    first: str
    first_on: Board
    second: str
    second_on: Board
    tau: Difference


def boards_on(folder: Path, *, space: str = "", dataset: str = "") -> list[Board]:
    """Return the boards of a results folder or of a leaderboard.

    Args:
        folder: Folder of the results or of the leaderboard.
        space: Only boards of this space; empty for all.
        dataset: Only boards of this data set; empty for all.

    Raises:
        ConfigError: There is none.
        ResultsError: The results cannot be read.
    """
    found = [
        board
        for board in boards_of(folder)
        if space in {"", board.recipe.space} and dataset in {"", board.recipe.dataset}
    ]
    if not found:
        raise ConfigError(f"results: expected runs of {space or 'any space'} on {dataset or 'any data set'}, got none")
    return found


def against(folder: Path, first: str, others: Sequence[str], boards: Sequence[Board]) -> list[Against]:
    """Compare a proxy with others on every board that has all of them, pair by pair on the same resamples.

    The baselines params, macs and random are on every board. Two proxies are compared on the networks and seeds that
    both scored.

    Args:
        folder: Folder of the results or of the leaderboard.
        first: Proxy or aggregate.
        others: Other proxies, aggregates or baselines.
        boards: Boards of the folder, from `boards_on`.

    Raises:
        ConfigError: A proxy stands on both sides or twice, none is named, or no board has all of them.
        UnknownNameError: No board has a proxy of that name.
        IncompleteError: A score is missing.
        ResultsError: The results cannot be read.
    """
    _check(first, others)
    for name in (first, *others):
        if name not in (known := {known for board in boards for known in _names(board)}):
            if name in PROXIES or name in AGGREGATES:
                raise UnknownNameError(
                    f"{name} has no scores in {folder}: score it first: zcbench run --proxies {name}, with "
                    "--include if it is your own"
                )
            raise unknown_name("proxy of these results", name, known)
    ours = [board for board in boards if {first, *others} <= _names(board)]
    if not ours:
        raise ConfigError(
            f"results: no board has all of {', '.join((first, *others))}: score them on the same networks, with one "
            "zcbench run"
        )
    return [_on(board, folder, first, others) for board in ours]


def lowest(found: Sequence[Against]) -> list[Lowest]:
    """Compare a proxy with others by the lowest tau of each over all boards: how well it ranks where it ranks worst.

    A resample draws the classes of every board, and a proxy's lowest tau of it may be on another board than that of the
    whole. Boards are resampled independently of each other. Holm's correction is over all rivals.

    Args:
        found: What `against` returns.

    Returns:
        One for each rival; none if there are fewer than two boards, if a board has no resamples, or if a proxy has
        several batch sizes.
    """
    if len(found) < 2 or any(each.census or not each.tau for each in found):
        return []
    names = list(found[0].tau)
    tau = np.array([[each.tau[name][0] for name in names] for each in found])
    count = min(len(each.tau[names[0]]) for each in found) - 1
    # All boards draw with one seed, so each has its resamples in an order of its own, which follows from its id.
    orders = [1 + np.random.RandomState(int(each.board.id, 16)).permutation(count) for each in found]
    drawn = [np.array([each.tau[name][order] for name in names]) for each, order in zip(found, orders, strict=True)]
    least, resampled, on = tau.min(0), np.min(drawn, axis=0), tau.argmin(0)
    pairs = differences(np.array([[least[0], other] for other in least[1:]]), resampled[0] - resampled[1:])
    boards_ = [each.board for each in found]
    return [
        Lowest(names[0], boards_[on[0]], name, boards_[on[place]], pair)
        for place, (name, pair) in enumerate(zip(names[1:], pairs, strict=True), start=1)
    ]


def _check(first: str, others: Sequence[str]) -> None:
    if not others:
        raise ConfigError("with: expected the names of proxies to compare with, got none")
    if twice := next((name for place, name in enumerate(others) if name in others[:place]), ""):
        raise ConfigError(f"with: expected distinct names, got {twice} twice")
    if first in others:
        raise ConfigError(f"with: expected proxies other than {first}, got it on both sides")


def _names(board: Board) -> set[str]:
    return {*board.recipe.versions, *board.recipe.aggregates, *BASELINES}


def _on(board: Board, folder: Path, first: str, others: Sequence[str]) -> Against:
    names = (first, *others)
    recipe = _only(board.recipe, names)
    scored = {*recipe.versions, *recipe.aggregates}
    extra = [baseline(board, name) for name in names if name not in scored]
    scores = [with_aggregates(rows_of(folder, recipe), recipe, f"results {folder}")] if recipe.work else []
    rows = pd.concat([*scores, *extra])
    sample = of_recipe(recipe, rows[rows["proxy"].isin(names)])
    place = {id(m): at for at, m in enumerate(sample.measured)}
    pairs = []
    for _, group in families(sample):
        at = {m.panel.proxy: place[id(m)] for m in group}
        pairs += [(at[first], at[other]) for other in others if first in at and other in at]
    found = compare(sample.measured, sample.truth, sample.weights, asked=dict.fromkeys(pairs))
    tau = {
        m.panel.proxy: m.panel.sign * mean_over_seeds(np.column_stack([m.tau, m.drawn_tau])) for m in sample.measured
    }
    one_each = len(sample.measured) == len(names)
    return Against(board, not recipe.resamples, tuple(found), {name: tau[name] for name in names} if one_each else {})


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
