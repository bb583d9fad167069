"""Boards: the runs of a results folder on the same networks, images and accuracies, joined."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ResultsError, in_words, one_line
from ..scoring.store import Store
from ..study.recipe import Recipe, Work, from_document, without_nan


@dataclass(frozen=True)
class Board:
    """One leaderboard: a recipe, and what is known of its networks beside their accuracy.

    Attributes:
        title: Name in the configuration, with a version; by default space, data set and protocol.
        name: Space, images, networks, seeds and accuracies in words.
        recipe: Recipe of the scores.
        sizes: `params`, `macs` and what else the space knows of the networks, by name, each `(n,)`.
        environments: Environments of the runs, the newest first.
        superseded: Proxies with a version whose scores are left out, because a newer run had another version.
    """

    title: str
    name: str
    recipe: Recipe
    sizes: Mapping[str, NDArray[np.float64]]
    environments: tuple[Mapping[str, str], ...]
    superseded: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Eight digits that two boards share only if networks, images, seeds, accuracies and protocol are the same."""
        return hashlib.sha256(json.dumps(identity(self.recipe)).encode()).hexdigest()[:8]

    def identity(self) -> dict[str, str]:
        """Return the columns that identify it in tables."""
        return {"id": self.id, "title": self.title}

    def part(self, networks: Container[str]) -> Board:
        """Return the board of those of its networks that are among some others."""
        kept = np.array([network in networks for network in self.recipe.accuracies])
        sizes = {name: values[kept] for name, values in self.sizes.items()}
        recipe = self.recipe.part(networks)
        return dataclasses.replace(self, name=_name(recipe), recipe=recipe, sizes=sizes)

    def document(self) -> dict[str, Any]:
        """Return the board as JSON holds it, for `from_record` to read."""
        return {
            "title": self.title,
            "name": self.name,
            "recipe": self.recipe.document(),
            "sizes": {name: without_nan(values) for name, values in self.sizes.items()},
            "environments": list(self.environments),
            "superseded": list(self.superseded),
        }


def from_record(record: Mapping[str, Any], where: str) -> Board:
    """Read a board from the record of a run, or from its own document.

    Raises:
        ResultsError: Something is missing or of another kind.
    """
    try:
        recipe = from_document(record["recipe"], where)
        sizes = {str(name): np.asarray(values, dtype=np.float64) for name, values in record["sizes"].items()}
        if any(values.shape != (len(recipe.accuracies),) for values in sizes.values()):
            raise ValueError(f"expected sizes of {len(recipe.accuracies)} networks")
        environments = tuple(record.get("environments") or [record["environment"]])
        given = record.get("title") or record.get("config", {}).get("name")
        title = one_line(str(given)) if given else _title(recipe)
        superseded = tuple(map(str, record.get("superseded", ())))
        return Board(title, record.get("name") or _name(recipe), recipe, sizes, environments, superseded)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ResultsError(
            f"{where} is no record of a run that this zcbench reads ({in_words(error)}): "
            "delete it and run the study again; scores are kept"
        ) from None


def boards(folder: Path) -> list[Board]:
    """Read the boards of a results folder from the records of its runs, by name.

    Runs on the same networks, images, seeds and accuracies are one board, with the proxies of all these runs. If two
    runs had different versions of a proxy, the newer run counts.

    Raises:
        ResultsError: There are no runs, or a record is torn.
    """
    if not folder.is_dir():
        got = "which is a file" if folder.exists() else "which does not exist"
        raise ResultsError(f"results: expected a folder that zcbench run wrote, got {folder}, {got}")
    Store(folder).upgrade()
    found: dict[tuple[Any, ...], Board] = {}
    for path in reversed(records(folder)):
        board = read_record(path)
        key = identity(board.recipe)
        found[key] = joined(found[key], board) if key in found else board
    if not found:
        raise ResultsError(
            f"results: {folder} holds no run: start one with zcbench run --out {folder}; one that was interrupted "
            "has its record when the same command has ended"
        )
    return sorted(found.values(), key=lambda board: (board.name, board.id))


def records(folder: Path) -> list[Path]:
    """Return the records of the runs of a results folder, the oldest first."""
    return sorted(path for path in (folder / "runs").glob("*.json") if not path.name.startswith("."))


def read_record(path: Path) -> Board:
    """Read the board of one run from its record.

    Raises:
        ResultsError: The record is torn, or none that this zcbench reads.
    """
    try:
        if not path.is_file():
            raise ValueError("no regular file")
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(f"record {path} is torn ({in_words(error)}): delete it") from None
    return from_record(record, f"record {path}")


def identity(recipe: Recipe) -> tuple[Any, ...]:
    """Return what two recipes of one board have in common: all but the proxies."""
    networks = hashlib.sha256(json.dumps(recipe.document()["accuracies"]).encode()).hexdigest()
    own = (recipe.space, recipe.dataset, recipe.truth, recipe.protocol, recipe.device, recipe.torch)
    return (*own, networks, tuple(recipe.seeds), recipe.batch_sizes)


def joined(newer: Board, older: Board) -> Board:
    """Return one board with the proxies of two that have one `identity`; the newer version of a proxy counts."""
    a, b = newer.recipe, older.recipe
    work: dict[tuple[int, int], dict[str, None]] = {}
    for item in (*a.work, *b.work):
        work.setdefault((item.seed, item.batch_size), {}).update(dict.fromkeys(item.proxies))
    recipe = dataclasses.replace(
        a,
        work=tuple(Work(seed, size, tuple(names)) for (seed, size), names in work.items()),
        batches={**b.batches, **a.batches},
        versions={**b.versions, **a.versions},
        content={**b.content, **a.content},
        lower=_union(a.lower, b.lower),
        aggregates=_union(a.aggregates, b.aggregates),
        resamples=max(a.resamples, b.resamples),
        sample_of=_most(a, b),
    )
    environments = tuple(
        {json.dumps(e, sort_keys=True): e for e in (*newer.environments, *older.environments)}.values()
    )
    others = (f"{name} {version}" for name, version in b.versions.items() if a.versions.get(name, version) != version)
    superseded = _union(newer.superseded, (*older.superseded, *others))
    title = older.title if newer.title == _title(a) else newer.title
    return Board(title, newer.name, recipe, {**older.sizes, **newer.sizes}, environments, superseded)


def _most(newer: Recipe, older: Recipe) -> dict[str, int]:
    """Return the number of networks of the proxies that do not score all: the most of two recipes with one version."""
    counts = {**older.sample_of, **newer.sample_of}
    for proxy in set(newer.versions) & set(older.versions):
        same = newer.versions[proxy] == older.versions[proxy]
        counts[proxy] = max(of.networks_of(proxy) for of in ((newer, older) if same else (newer,)))
    return {proxy: count for proxy, count in sorted(counts.items()) if count < len(newer.accuracies)}


def _union(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _title(recipe: Recipe) -> str:
    return f"{recipe.space}-{recipe.dataset} v{recipe.protocol}"


def _name(recipe: Recipe) -> str:
    batches = f", batches of {' '.join(map(str, recipe.batch_sizes))}" if len(recipe.batch_sizes) > 1 else ""
    seeds = f", {len(recipe.seeds)} seeds" if len(recipe.seeds) > 1 else ""
    if len(recipe.seeds) == 1 and recipe.seeds != [0]:
        seeds = f", seed {recipe.seeds[0]}"
    return f"{recipe.space} on {recipe.dataset}, {len(recipe.accuracies)} networks{batches}{seeds}, {recipe.truth}"
