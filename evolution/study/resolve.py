"""A search that is ready to run: its configuration with every name looked up, number checked and file read."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...bench.results.board import Board
from ...bench.results.published.sources import read
from ...bench.study.config import PROTOCOL, StudyConfig, distinct, listed
from ...bench.study.recipe import Recipe
from ...bench.study.resolve import Study, resolve
from ...datasets import data_folder
from ...environment import environment
from ...errors import ConfigError
from ...plugins import load
from ...proxies import AGGREGATES, PROXIES
from ...spaces import SPACES, Space
from ..data import layers as tables
from ..data.bank import Bank
from ..data.split import draw, masked, part_of
from ..data.statistics import VERSION
from ..engine.config import EngineConfig
from ..engine.fitness import Objective
from ..engine.generations import Representation
from ..engine.networks import Measure, Scoring
from ..engine.pools import Scale, Table, table, vocabulary
from ..language import layers, primitives
from ..language.parse import parse
from ..language.register_machines import Machines
from ..language.variation import Trees
from .config import EvolveConfig, Ground, as_document, check
from .found import LAYERS, STATISTICS


@dataclass(frozen=True)
class ProgramSearch:
    """A resolved search for programs over network statistics or layer tables.

    Attributes:
        over: What programs read.
        by_class: Whether the pool and the networks behind it are drawn by class. The accuracies of all other networks
            are NaN then.
        grounds: Grounds to evolve on, each as a study whose first `pool` networks are the pool.
        tests: Grounds to test on, each as a study whose networks after the first `pool` are the test.
        pool: Number of networks in the pool of a ground.
        batch_size: Number of images that found programs are scored with by default: the largest of `batch_sizes`, or of
            the grounds if each has a number of its own.
        recipe: Every value that influences the search, except the networks of the pools.
    """

    over: Literal["statistics", "layers"]
    by_class: bool
    engine: EngineConfig
    representation: Representation[Any]
    grounds: Sequence[Study]
    tests: Sequence[Study]
    pool: int
    batch_size: int
    bank: Bank
    scoring: Scoring
    measure: Measure
    workers: int
    out: Path
    recipe: Mapping[str, Any]


@dataclass(frozen=True)
class AggregateSearch:
    """A resolved search for aggregates of proxies.

    Attributes:
        fitted: Tables that programs are fitted on, one per ground.
        others: Tables that programs are tested on.
        notes: One line for every board that is left out.
        scale: Scale on which programs read scores.
        top: Share of the networks that count as the most accurate.
        recipe: Every value that influences the search.
    """

    engine: EngineConfig
    trees: Trees
    fitted: Sequence[Table]
    others: Sequence[Table]
    notes: Sequence[str]
    scale: Scale
    objectives: tuple[Objective, ...]
    top: float
    members: int
    out: Path
    recipe: dict[str, Any]


def resolve_search(config: EvolveConfig) -> ProgramSearch | AggregateSearch:
    """Turn a configuration into a search that is ready to run. Nothing is computed or written."""
    check(config)
    load(listed(config.include))
    over = config.over
    if over == "ranks" or over == "logs":  # noqa: PLR1714  mypy narrows no type by `in`
        return _aggregates(config, over)
    return _programs(config, over)


def _programs(config: EvolveConfig, over: Literal["statistics", "layers"]) -> ProgramSearch:
    (objective,) = _objectives(config)
    known = STATISTICS if over == "statistics" else LAYERS
    words = dataclasses.replace(known, height_limit=config.engine.height_limit)
    representation: Representation[Any] = Machines(words) if config.representation == "sequential" else Trees(words)
    for text in config.engine.start:
        representation.parse(text)
    if over == "layers":
        for text in config.rivals:
            parse(LAYERS, text)
    # Grounds that have their own number of images are evolved with no other.
    shared = any(not ground.batch_size for ground in config.grounds)
    largest = max(listed(config.batch_sizes) if shared else [ground.batch_size for ground in config.grounds])
    out = Path(config.out)
    grounds = [_study(config, ground, listed(config.batch_sizes)) for ground in config.grounds]
    size = config.test_batch_size or largest
    tests = [_study(config, ground, [size]) for ground in config.tests or config.grounds] if config.test else []
    collection = config.collection if over == "statistics" else "layers"
    return ProgramSearch(
        over=over,
        by_class=config.split == "classes",
        engine=config.engine,
        representation=representation,
        grounds=grounds,
        tests=tests,
        pool=config.pool,
        batch_size=largest,
        bank=Bank(Path(config.statistics or out / "statistics"), collection, config.dtype),
        scoring=Scoring(config.to_scalar, config.aggregation),
        measure=Measure(
            config.draw, config.grounds_drawn, objective, config.top, config.sign, config.exact, tuple(config.rivals)
        ),
        workers=config.workers,
        out=out,
        recipe=_program_recipe(config),
    )


def _study(config: EvolveConfig, ground: Ground, batch_sizes: Sequence[int]) -> Study:
    """Resolve the networks of a ground as a study: first those of its pool, then those of the test."""
    space = SPACES[ground.space](data_folder(config.data))
    if config.pool + config.test > space.size:
        raise ConfigError(
            f"grounds: {space.name} has {space.size} networks: expected pool + test of at most that number, got "
            f"{config.pool} + {config.test}"
        )
    study = resolve(
        StudyConfig(
            space=ground.space,
            dataset=ground.dataset,
            accuracy=ground.accuracy,
            proxies=["params"],
            sample=config.pool + config.test,
            sample_seed=config.sample_seed,
            batch_sizes=[ground.batch_size] if ground.batch_size else list(batch_sizes),
            seeds=listed(config.seeds),
            out=str(Path(config.out) / "scores"),
            data=config.data,
            include=config.include,
            tracker="none",
            workers=config.workers,
        )
    )
    if config.split == "networks":
        return study
    seed = config.sample_seed
    indices = [*draw(space, "pool", config.pool, seed), *draw(space, "validation", config.test, seed)]
    return dataclasses.replace(study, indices=tuple(indices), truth=masked(study.truth, indices))


def _program_recipe(config: EvolveConfig) -> dict[str, Any]:
    """Return the configuration without the values that do not influence the search, and all versions."""
    document = as_document(config)
    for free in (
        *("out", "statistics", "data", "include", "workers", "tracker", "test", "tests", "test_batch_size"),
        *("over", "results", "proxies", "halves", "members"),
    ):
        document.pop(free)
    document["engine"].pop("generations")
    if config.objective != "gain":
        document.pop("rivals")
    versions = [VERSION, primitives.VERSION]
    if config.over == "layers":
        versions = [tables.VERSION, layers.VERSION]
        document["over"] = "layers"
        for free in ("collection", "dtype", "to_scalar", "aggregation", "representation"):
            document.pop(free)
    return {
        **document,
        "versions": versions,
        "protocol": PROTOCOL,
        "environment": {name: v for name, v in environment().items() if name in {"zcbench", "torch", "cpu"}},
    }


def _aggregates(config: EvolveConfig, scale: Scale) -> AggregateSearch:
    by_class = config.split == "classes"
    fitted, others, proxies, notes = _tables(config)
    trees = Trees(vocabulary(proxies, config.engine.height_limit))
    for text in config.engine.start:
        trees.parse(text)
    engine = dataclasses.asdict(config.engine)
    engine.pop("generations")
    asked = ("over", "objective", "top", "halves", "sample_seed", "members")
    recipe = {name: getattr(config, name) for name in (*asked, *(["split"] if by_class else []))} | {
        "proxies": proxies,
        "pools": {pool.name: _digest(pool) for pool in fitted},
        "engine": engine,
    }
    return AggregateSearch(
        engine=config.engine,
        trees=trees,
        fitted=fitted,
        others=others,
        notes=notes,
        scale=scale,
        objectives=_objectives(config),
        top=config.top,
        members=config.members,
        out=Path(config.out),
        recipe=recipe,
    )


def _tables(config: EvolveConfig) -> tuple[list[Table], list[Table], list[str], list[str]]:
    """Read the tables of a results folder to fit on and to test on, the names of their proxies, and notes.

    Without `proxies`, they are all that every ground's board has. Networks are fitted on if they lie in a random half
    of the classes; with `split: classes` if they are not sealed; or all of them.
    """
    proxies, results = listed(config.proxies), Path(config.results)
    sources = read(results)
    found = [board for board, _ in sources]
    rows = {board.id: own for board, own in sources}
    by_ground = [_board(found, ground, set(proxies), results) for ground in config.grounds]
    chosen = {board.id: board for board in by_ground}
    names = _proxies(proxies, list(chosen.values()))
    whole = [table(_name(board, found), board.recipe, rows[board.id], names) for board in chosen.values()]
    if config.split == "classes":
        folder = data_folder(config.data)
        fitted = [_unsealed(SPACES[b.recipe.space](folder), p) for b, p in zip(chosen.values(), whole, strict=True)]
    else:
        fitted = [pool.halves(config.sample_seed)[0] for pool in whole] if config.halves else whole
    others, notes = [], []
    seen: dict[str, set[int | str]] = {}
    for board, pool in zip(chosen.values(), fitted, strict=True):
        seen.setdefault(board.recipe.space, set()).update(pool.keys)
    if fitted is not whole:
        for board, pool in zip(chosen.values(), whole, strict=True):
            # Two boards of one space may be halved differently, so the classes of either fitted half are left out.
            left = [place for place, key in enumerate(pool.keys) if key not in seen[board.recipe.space]]
            others.append(pool.part("tested on", np.array(left)))
    for board in found:
        if board.id not in chosen:
            name, fitted_on = _name(board, found), seen.get(board.recipe.space, set())
            keys = zip(board.recipe.accuracies, board.recipe.classes or board.recipe.accuracies, strict=True)
            unseen = {network for network, key in keys if key not in fitted_on}
            if not unseen:  # all networks were fitted on; they are reported, and the name says so
                name, unseen = f"{name}, networks fitted on", set(board.recipe.accuracies)
            try:
                others.append(table(name, board.recipe.part(unseen), rows[board.id], names))
            except ConfigError as error:
                notes.append(f"left out: {error}")
    return fitted, others, names, notes


def _unsealed(space: Space, pool: Table) -> Table:
    """Return the networks of a pool whose classes are not sealed."""
    kept = [place for place, network in enumerate(pool.networks) if part_of(space, space.index(network)) != "sealed"]
    return pool.part("fitted on", np.array(kept))


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
    """Return the named proxies, or all registered proxies that every board has for all of its networks."""
    aggregates = {name for board in chosen for name in board.recipe.aggregates}
    for name in distinct("proxies", named):
        if name in aggregates or name in AGGREGATES:
            raise ConfigError(f"proxies: expected proxies that score a network by itself, got the aggregate {name}")
        PROXIES[name]  # raises the error for an unknown name
    whole = [{*board.recipe.versions} - {*board.recipe.sample_of} for board in chosen]
    common = [name for name in PROXIES if all(name in names for names in whole)]
    if not named and len(common) < 2:
        raise ConfigError(f"proxies: the boards have {', '.join(common) or 'none'} in common: expected two or more")
    return list(named) or common


def _name(board: Board, found: Sequence[Board]) -> str:
    """Return the name of a board's table, with the board's id if another board has the same name."""

    def name(recipe: Recipe) -> str:
        return f"{recipe.space} on {recipe.dataset}, {recipe.truth}"

    same = [b for b in found if name(b.recipe) == name(board.recipe)]
    return name(board.recipe) + (f", board {board.id}" if len(same) > 1 else "")


def _objectives(config: EvolveConfig) -> tuple[Objective, ...]:
    return ("tau", "top") if config.objective == "both" else (config.objective,)


def _digest(pool: Table) -> str:
    """Return a digest of the accuracies and scores of a table."""
    digest = hashlib.sha256(pool.truth.tobytes())
    for name, values in pool.scores.items():
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:16]
