"""An entry: proxies of anybody's, scored on the networks of a published leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ....atomic import write_atomically
from ....errors import ConfigError, ResultsError
from ...scoring.runner import run
from ...scoring.store import Store
from ...study.resolve import Study
from ..board import Board, boards
from ..standing import Standing, stand
from .sources import merged, published, read, write_scores


def chosen(folder: Path, names: Sequence[str]) -> list[Board]:
    """Return the boards of a leaderboard whose titles or names are given; all without a name.

    Raises:
        ConfigError: No board has such a name.
    """
    known = published(folder)
    for name in names:
        if not any(_is(board, name) for board in known):
            raise ConfigError(f"boards: expected one of {', '.join(_short(board) for board in known)}, got {name}")
    return [board for board in known if not names or any(_is(board, name) for name in names)]


def enter(folder: Path, board: Board, study: Study) -> tuple[Standing, pd.DataFrame]:
    """Score the networks of a board by the proxies of an entry; return the board with them, and their rows.

    Args:
        folder: Folder of the leaderboard.
        board: One of its boards.
        study: The proxies on the networks of the board, from `resolve_recipe`. What its results folder holds is not
            computed again.

    Raises:
        ZcbenchError: Scores are missing, or a folder cannot be read or written.
    """
    run(study)
    before, own = (next(source for source in read(of) if source[0].id == board.id) for of in (folder, study.out))
    return stand(*merged(before, own)), own[1]


def write(out: Path, results: Path, sources: Sequence[str]) -> None:
    """Write an entry: its scores, the recipe of every board, and the files that define the proxies.

    Raises:
        ResultsError: The folder cannot be written.
    """
    store = Store(results)
    found = [(board, store.rows(board.recipe)) for board in boards(results)]
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_scores(out, found)
        for source in sources:
            write_atomically(out / Path(source).name, Path(source).read_bytes())
    except OSError as error:
        raise ResultsError(f"out: cannot write to {out} ({error.strerror}): choose another folder") from None


def _short(board: Board) -> str:
    return f"{board.recipe.space}-{board.recipe.dataset}"


def _is(board: Board, name: str) -> bool:
    return name in {board.id, board.title, board.name, _short(board)}
