"""Some networks of a published leaderboard, scored anew and compared with what it says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from ....errors import ConfigError
from ...scoring.runner import run
from ...scoring.store import Store
from ...study.recipe import Recipe
from ...study.resolve import resolve_recipe
from ..board import Board
from ..regress import Finding, compare, make_baseline
from .sources import read


def recompute(
    folder: Path, count: int, *, seed: int = 0, workers: int = 1, data: str | None = None
) -> Iterator[tuple[Board, int, list[Finding]]]:
    """Score some networks of a leaderboard anew, and yield for each board what `regress.compare` finds.

    The networks are drawn from those of all boards. A proxy of a user's own file is left out, because its code is not
    in the leaderboard.

    Args:
        folder: Folder of the leaderboard.
        count: Number of networks.
        seed: Seed of the draw.
        workers: Number of worker processes.
        data: Data folder.

    Yields:
        Board, number of networks, and findings.

    Raises:
        ConfigError: The count is not between 1 and the number of networks, or the files here are not those of a board.
    """
    sources = read(folder)
    sizes = [len(board.recipe.accuracies) for board, _ in sources]
    if not 1 <= count <= sum(sizes):
        raise ConfigError(f"recompute: expected 1 to {sum(sizes)} networks, got {count}")
    # The stream of RandomState never changes. Newer generators may change with a version of numpy.
    drawn = np.sort(np.random.RandomState(seed).permutation(sum(sizes))[:count])
    first = np.cumsum([0, *sizes])
    for place, (board, rows) in enumerate(sources):
        own = drawn[(drawn >= first[place]) & (drawn < first[place + 1])] - first[place]
        if len(own):
            yield board, len(own), _again(board, rows, own.tolist(), workers, data)


def _again(board: Board, rows: pd.DataFrame, places: list[int], workers: int, data: str | None) -> list[Finding]:
    recipe = board.recipe
    names = [name for name in recipe.versions if name not in recipe.aggregates and name not in recipe.content]
    with TemporaryDirectory(prefix="zcbench-recompute-") as out:
        study = resolve_recipe(recipe, names, out=out, workers=workers, data=data)
        study = study.part({recipe.architectures[place] for place in places})
        run(study)
        now = Store(study.out).rows(study.recipe)
    chosen = rows[rows["architecture"].isin(study.recipe.architectures) & rows["proxy"].isin(names)]
    document = make_baseline(study.config, _of(study.recipe, board), chosen)
    document["recipe"]["environment"] = board.environments[0]
    return compare(document, study.recipe, now)


def _of(recipe: Recipe, board: Board) -> Recipe:
    """Return a recipe with the versions of a board."""
    return dataclasses.replace(recipe, versions=board.recipe.versions)
