"""One proxy against others: on every board that has it, by how much it ranks better than each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import ConfigError, UnknownNameError, unknown_name
from ...progress import Progress
from ...proxies import AGGREGATES, PROXIES
from ..stats.coefficients import mean_over_seeds
from ..stats.ranks import Vector
from ..stats.significance import Difference, differences
from ..stats.top import FEWEST
from ..study.recipe import Recipe
from .board import Board
from .pairs import Comparison, compared, families, paired
from .panel import Measured, of_recipe
from .published.sources import boards_of, is_leaderboard, rows_of
from .ranking import with_aggregates
from .standing import BASELINES, baseline


@dataclass(frozen=True)
class Against:
    """One proxy against others on one board.

    Attributes:
        census: Whether the networks are all of the space; differences have no interval and no p-value then.
        comparisons: One for each rival and batch size; Holm's correction is over all of them.
        tau: By the name of each rival, Kendall's tau-b of the proxy and of the rival on the networks that both scored,
            and behind it that of every resample `(1 + resamples,)`; means over seeds, positive where a proxy ranks as
            it claims. Empty if a proxy has several batch sizes.
    """

    board: Board
    first: str
    census: bool
    comparisons: tuple[Comparison, ...]
    tau: Mapping[str, tuple[Vector, Vector]] = field(default_factory=dict, repr=False)


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


def boards_on(folder: Path, *, spaces: Collection[str] = (), datasets: Collection[str] = ()) -> list[Board]:
    """Return the boards of a results folder or of a leaderboard.

    Args:
        folder: Folder of the results or of the leaderboard.
        spaces: Only boards of these spaces; empty for all.
        datasets: Only boards of these data sets; empty for all.

    Raises:
        ConfigError: There is none, or none of a space or a data set that is named.
        ResultsError: The results cannot be read.
    """
    found = [
        board
        for board in boards_of(folder)
        if (not spaces or board.recipe.space in spaces) and (not datasets or board.recipe.dataset in datasets)
    ]
    if not found:
        what = f"{' or '.join(spaces) or 'any space'} on {' or '.join(datasets) or 'any data set'}"
        raise ConfigError(f"results: expected runs of {what}, got none")
    known = {name for board in found for name in (board.recipe.space, board.recipe.dataset)}
    if absent := [name for name in (*spaces, *datasets) if name not in known]:
        raise ConfigError(f"results: expected runs of {absent[0]} too, got none")
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
            if (name in PROXIES or name in AGGREGATES) and not is_leaderboard(folder):
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
    with Progress("comparing on boards", len(ours), shown=len(ours) > 1) as progress:
        found = []
        for board in ours:
            found.append(_on(board, folder, first, others))
            progress.advance(1)
    return found


def lowest(found: Sequence[Against]) -> list[Lowest]:
    """Compare a proxy with others by the lowest tau of each over all boards: how well it ranks where it ranks worst.

    On each board, both are measured on the networks that both scored. A resample draws the classes of every board, and
    a proxy's lowest tau of it may be on another board than that of the whole. Boards are resampled independently of
    each other. Holm's correction is over all rivals.

    Args:
        found: What `against` returns.

    Returns:
        One for each rival; none if there are fewer than two boards, if a board has no resamples, or if a proxy has
        several batch sizes.
    """
    if len(found) < 2 or any(each.census or not each.tau for each in found):
        return []
    names = list(found[0].tau)
    count = min(len(first) for each in found for first, _ in each.tau.values()) - 1
    # All boards draw with one seed, so each has its resamples in an order of its own, which follows from its id.
    orders = [1 + np.random.RandomState(int(each.board.id, 16)).permutation(count) for each in found]
    boards = [each.board for each in found]
    least, on, gaps = [], [], []
    for name in names:
        both = [np.stack(each.tau[name]) for each in found]
        tau = np.stack([taus[:, 0] for taus in both])
        first, second = np.min([taus[:, order] for taus, order in zip(both, orders, strict=True)], axis=0)
        least.append(tau.min(0))
        on.append([boards[place] for place in tau.argmin(0)])
        gaps.append(first - second)
    pairs = differences(np.asarray(least), np.asarray(gaps))
    return [
        Lowest(found[0].first, first_on, name, second_on, pair)
        for name, (first_on, second_on), pair in zip(names, on, pairs, strict=True)
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
    recipe = only(board.recipe, names)
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
    both = paired(sample.measured, sample.truth, sample.weights, asked=dict.fromkeys(pairs))
    found = compared(both)
    tau: dict[str, tuple[Vector, Vector]] = {}
    if len(sample.measured) == len(names):  # each has one batch size
        enough = [1.0 if row.n >= FEWEST else np.nan for row in found]
        tau = {b.panel.proxy: (of * _taus(a), of * _taus(b)) for of, (a, b) in zip(enough, both, strict=True)}
    return Against(board, first, not recipe.resamples, tuple(found), tau)


def _taus(m: Measured) -> Vector:
    """Return Kendall's tau-b of a panel and behind it that of every resample, as `Against.tau` has them."""
    return m.panel.sign * mean_over_seeds(np.column_stack([m.tau, m.drawn_tau]))


def only(recipe: Recipe, names: Iterable[str]) -> Recipe:
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
