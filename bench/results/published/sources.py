"""Boards and their rows, from a results folder or from a published leaderboard, which holds its own scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ....atomic import write_atomically
from ....errors import ResultsError, in_words, kind_of
from ...scoring.parts import COLUMNS, KEY
from ...scoring.questions import rows_in
from ...scoring.store import Store
from ...study.recipe import Recipe
from ..board import Board, boards, from_record, identity, joined

#: Names of the files that a leaderboard is made from.
SCORES, BOARDS = "scores.parquet", "boards.json"

#: A board and its rows, one per key.
Source = tuple[Board, pd.DataFrame]


def read(folder: Path) -> list[Source]:
    """Return the boards of a folder, each with its rows: of a results folder, or of a leaderboard.

    Raises:
        ResultsError: The folder is neither, or a file of it is torn.
    """
    return [(board, rows_of(folder, board.recipe)) for board in boards_of(folder)]


def boards_of(folder: Path) -> list[Board]:
    """Return the boards of a folder, as `read` does, without their rows.

    Raises:
        ResultsError: As for `read`.
    """
    return published(folder) if is_leaderboard(folder) else boards(folder)


def rows_of(folder: Path, recipe: Recipe) -> pd.DataFrame:
    """Return the rows of a recipe, one per key, from a results folder or a leaderboard.

    Raises:
        ResultsError: As for `read`.
    """
    return rows_in(folder / SCORES, recipe) if is_leaderboard(folder) else Store(folder).rows(recipe)


def is_leaderboard(folder: Path) -> bool:
    """Return whether a folder is that of a leaderboard; otherwise it is read as a results folder."""
    return (folder / BOARDS).exists()


def read_leaderboard(folder: Path) -> list[Source]:
    """Return the boards of a leaderboard, each with its rows.

    Raises:
        ResultsError: The folder has no leaderboard, or a file of it is torn.
    """
    return [(board, rows_in(folder / SCORES, board.recipe)) for board in published(folder)]


def published(folder: Path) -> list[Board]:
    """Return the boards of a leaderboard, after a look at its scores.

    Raises:
        ResultsError: The folder has no leaderboard, or a file of it is torn.
    """
    if not folder.is_dir():
        raise ResultsError(f"expected a leaderboard in {folder}, but there is no such folder: give the path of one")
    try:
        documents = json.loads((folder / BOARDS).read_text("utf-8"))
        rows = pq.read_table(folder / SCORES).to_pandas()
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise ResultsError(
            f"expected a leaderboard in {folder}, got none or a damaged one ({in_words(error)}): make it again"
        ) from None
    if not isinstance(documents, list) or not documents:
        got = "an empty list" if documents == [] else kind_of(documents)
        raise ResultsError(f"leaderboard {folder / BOARDS}: expected a list of boards, got {got}: make it again")
    if missing := [name for name in COLUMNS if name not in rows]:
        raise ResultsError(f"leaderboard {folder / SCORES} has no column {missing[0]}: make it again")
    if repeated := int(rows.duplicated(list(KEY)).sum()):
        raise ResultsError(
            f"leaderboard {folder / SCORES}: expected one score per key, got {repeated} more: make it again"
        )
    return [from_record(document, f"leaderboard {folder / BOARDS}") for document in documents]


def with_entries(sources: Sequence[Source], entries: Sequence[Path]) -> list[Source]:
    """Add the proxies of entries, from `zcbench enter`, to the boards that have the same networks and images.

    The scores of a proxy that an entry has again are those of the entry.

    Raises:
        ResultsError: An entry is torn, or a board of it is no board of these.
    """
    found = {identity(board.recipe): (board, rows) for board, rows in sources}
    for entry in entries:
        for board, rows in read(entry):
            key = identity(board.recipe)
            if key not in found:
                raise ResultsError(
                    f"entry {entry}: its networks, images, protocol or torch are of no board here ({board.name}): "
                    "make the entry again with zcbench enter and this board"
                )
            _check_own(entry, found[key], rows)
            found[key] = merged(found[key], (board, rows))
    return list(found.values())


def _check_own(entry: Path, there: Source, rows: pd.DataFrame) -> None:
    """Refuse an entry whose scores of a proxy are others than those that are there, with the same version.

    Raises:
        ResultsError: It is so.
    """
    _, known = there
    index = ["proxy", "version", "batch_size", "seed", "architecture"]
    both = rows[[*index, "value"]].merge(known[[*index, "value"]], on=index, suffixes=("", " there"))
    differing = both[~np.isclose(both["value"], both["value there"], rtol=1e-5, atol=0, equal_nan=True)]
    if len(differing):
        raise ResultsError(
            f"entry {entry}: its scores of {differing['proxy'].iloc[0]} differ from those that the board or another "
            "entry has with the same version: give it another name or a higher version"
        )


def merged(older: Source, newer: Source) -> Source:
    """Return one board with the rows of two that have the same networks and images; the newer rows of a proxy count."""
    board, rows = newer
    versions = older[1]["proxy"].map(board.recipe.versions)
    others = older[1][versions.isna() | (versions == older[1]["version"])]
    once = ["proxy", "version", "batch_size", "seed", "architecture"]
    both = pd.concat([others, rows], ignore_index=True).drop_duplicates(once, keep="last", ignore_index=True)
    return joined(board, older[0]), both


def write_scores(out: Path, found: Sequence[Source]) -> None:
    """Write the rows and the recipes of boards, in the files that `sources.read` reads."""
    used = pd.concat([rows for _, rows in found], ignore_index=True).drop_duplicates(list(KEY))
    scores = pa.BufferOutputStream()
    table = pa.Table.from_pandas(used.sort_values(list(KEY), ignore_index=True), preserve_index=False)
    pq.write_table(table, scores, compression="zstd")
    documents = json.dumps([board.document() for board, _ in found], indent=1, allow_nan=False) + "\n"
    write_atomically(out / SCORES, scores.getvalue().to_pybytes())
    write_atomically(out / BOARDS, documents.encode())
