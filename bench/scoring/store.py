"""The store of scores: a results folder with parts of rows by space and data set, and the questions that it answers."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...atomic import write_atomically
from ...errors import ResultsError, in_words
from ..study.recipe import Recipe, Work
from .migration import FORMER, migrate, strays
from .parts import FORMAT, check_all, is_part, place
from .questions import Found, check_cells, connected, table_of
from .writer import Writer

_MANIFEST = "zcbench.json"

Answer = TypeVar("Answer")


class Store:
    """A results folder.

    Args:
        folder: Path of the folder; `create` makes it.

    Raises:
        ResultsError: The folder was written by a newer zcbench, or is no results folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scores, self.runs, self.manifest = folder / "scores", folder / "runs", folder / _MANIFEST
        self.format = FORMAT
        manifest = self.manifest
        # Before the manifest is looked for, because a run that makes the folder at this moment writes that first.
        holds = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
        if manifest.exists():
            try:
                if not manifest.is_file():
                    raise ValueError("no regular file")
                self.format = int(json.loads(manifest.read_text("utf-8-sig"))["format"])
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError) as error:
                raise ResultsError(
                    f'results {manifest} is torn ({in_words(error)}): restore it; its content is {{"format": {FORMAT}}}'
                ) from None
            if not FORMER <= self.format <= FORMAT:
                raise ResultsError(
                    f"results {folder} have format {self.format}, this zcbench reads {FORMER} to {FORMAT}: upgrade "
                    "zcbench or choose another --out"
                )
        elif holds:
            raise ResultsError(
                f"results: {folder} is no results folder: it has files, and no {_MANIFEST} among them: choose another"
            )

    def create(self) -> None:
        """Make the folder and its manifest, or bring a folder of the former format to this one.

        Raises:
            ResultsError: The folder cannot be written, or a part of the former format is damaged.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # The manifest comes first, because a folder that has files and no manifest is refused.
            if not self.manifest.exists():
                self._write_manifest()
            self.scores.mkdir(exist_ok=True)
            self.runs.mkdir(exist_ok=True)
            probe = self.scores / f".{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()
            if self.format < FORMAT or strays(self.folder):
                migrate(self.folder, self._write_manifest)
                self.format = FORMAT
        except OSError as error:
            raise ResultsError(
                f"out: cannot write to {self.folder} ({error.strerror}): choose another folder"
            ) from None

    def is_writable(self) -> bool:
        """Return whether this process may write to the folder, or make it."""
        there = next(path for path in (self.folder, *self.folder.absolute().parents) if path.exists())
        return os.access(there, os.W_OK)

    def upgrade(self) -> None:
        """Bring a folder of the former format to this one; do nothing to others.

        Raises:
            ResultsError: The folder has the former format and cannot be written.
        """
        if self.format == FORMAT and not strays(self.folder):
            return
        try:
            self.create()
        except ResultsError as error:
            if isinstance(error.__context__, OSError):
                raise ResultsError(
                    f"results {self.folder} have format {FORMER} and cannot be written: copy the folder to where you "
                    f"may write, and give the copy; zcbench then brings it to format {FORMAT}"
                ) from None
            raise

    def parts(self, space: str | None = None, dataset: str | None = None) -> list[Path]:
        """Return the parts, or those of one space and data set, in a fixed order."""
        if space is not None and dataset is not None:
            folder = place(self.scores, space, dataset)
            return sorted(path for path in (folder.iterdir() if folder.is_dir() else ()) if is_part(path))
        return sorted(path for path in self.scores.glob("*/*/*") if is_part(path))

    def places(self) -> list[tuple[Path, list[Path]]]:
        """Return the folders of parts, each with its parts."""
        found: dict[Path, list[Path]] = {}
        for part in self.parts():
            found.setdefault(part.parent, []).append(part)
        return list(found.items())

    def rows(self, recipe: Recipe) -> pd.DataFrame:
        """Return the rows of a recipe that are there, for each key the score or else the latest attempt.

        The rows have the columns of a row, `written_ns`, and `attempts`, the number of attempts of the key. They are in
        the order of their keys.

        Raises:
            ResultsError: A part is damaged, two rows have one key and different values, or memory ran out.
        """
        return self._ask(recipe, Found.frame, whole=True)

    def missing(self, recipe: Recipe, tries: int) -> dict[str, tuple[Work, ...]]:
        """Return the work of a recipe that is to be done, by network, in the order of the recipe.

        Args:
            recipe: Recipe of the scores.
            tries: Number of attempts after which a score is not tried again.

        Raises:
            ResultsError: As for `rows`.
        """

        def lacking(found: Found) -> dict[str, tuple[Work, ...]]:
            done = np.zeros((len(recipe.accuracies), len(found.items)), dtype=bool)
            done.flat[found.place[~found.failed | (found.attempts >= tries)]] = True
            for column, item in enumerate(found.items):
                done[recipe.networks_of(item.proxy) :, column] = True
            where = {item: column for column, item in enumerate(found.items)}
            work = [(each, [(name, where[recipe.item(each, name)]) for name in each.proxies]) for each in recipe.work]
            networks = recipe.architectures
            return {networks[i]: tuple(_rest(work, done[i])) for i in np.flatnonzero(~done.all(axis=1)).tolist()}

        return self._ask(recipe, lacking, whole=False)

    def networks(self, space: str, dataset: str) -> list[str]:
        """Return the networks of which there is a row for a space and data set, sorted.

        Raises:
            ResultsError: As for `rows`.
        """
        self.upgrade()

        def ask() -> list[str]:
            parts = self.parts(space, dataset)
            check_all(parts)
            with connected(self.scores) as connection:
                check_cells(connection, parts)
                found = connection.execute(f"SELECT DISTINCT architecture FROM {table_of(parts)} ORDER BY 1").fetchall()
            return [name for (name,) in found]

        return self.whole(ask)

    def writer(self) -> Writer:
        """Return a new writer, for one process."""
        return Writer(self.scores)

    def whole(self, ask: Callable[[], Answer]) -> Answer:
        """Return the answer to a question; ask again while another run joins parts that are just being read.

        Raises:
            ResultsError: Another run joins parts all the time.
        """
        for _ in range(100):
            try:
                return ask()
            except FileNotFoundError:  # the joined part is there already
                continue
        raise ResultsError(
            f"results {self.folder}: expected parts that stay, got parts that another run joins: wait until it ends"
        )

    def _ask(self, recipe: Recipe, question: Callable[[Found], Answer], *, whole: bool) -> Answer:
        self.upgrade()

        def ask() -> Answer:
            parts = self.parts(recipe.space, recipe.dataset)
            check_all(parts)
            with connected(self.scores) as connection:
                check_cells(connection, parts)
                return question(Found(connection, parts, recipe, whole=whole))

        return self.whole(ask)

    def _write_manifest(self) -> None:
        from ... import __version__

        write_atomically(self.manifest, json.dumps({"format": FORMAT, "zcbench": __version__}).encode())


def _rest(work: Sequence[tuple[Work, Sequence[tuple[str, int]]]], done: NDArray[np.bool_]) -> Iterator[Work]:
    for each, columns in work:
        if names := tuple(name for name, column in columns if not done[column]):
            yield Work(each.seed, each.batch_size, names)
