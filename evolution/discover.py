"""A search from beginning to end: statistics, evolution, the best programs as files, and their test."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..bench.protocol import PROTOCOL, StudyConfig, TrainerConfig
from ..bench.runner import environment
from ..bench.runner import run as run_study
from ..bench.store import write_atomically
from ..bench.study import Study, resolve
from ..bench.summary import Ranking, select, summarise
from ..errors import ConfigError
from .bank import Bank
from .config import EvolveConfig, Ground
from .engine import State, evolve
from .fitness import fitness
from .found import Found, register
from .networks import Measure, NetworkProblem, Pool, Reading
from .primitives import PRIMITIVES
from .programs import Program, Vocabulary
from .sequential import Machines
from .statistics import TERMINALS, VERSION
from .variation import Trees
from .workers import Workers

#: What the best programs are tested beside.
BESIDE = ("eznas_a", "params", "macs", "synflow", "naswot")

#: How many of the best programs are written and tested.
KEPT = 3


@dataclass(frozen=True)
class Candidate:
    """One of the best programs, measured on all networks of all pools.

    Attributes:
        program: As text.
        size: Its nodes.
        fitness: On all networks.
        met: Its fitness when it was met, on what was drawn then.
        tau: Kendall's tau by pool, signed.
    """

    program: str
    size: int
    fitness: float
    met: float
    tau: dict[str, float]

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        record = {key: value for key, value in vars(self).items() if key != "tau"}
        return record | {f"tau of {pool}": tau for pool, tau in self.tau.items()}


@dataclass(frozen=True)
class Discovery:
    """What a search found.

    Attributes:
        state: Its last generation, hall of fame and records.
        candidates: The best programs, the best first.
        tests: How these rank networks that the search never saw, beside other proxies; one list a ground.
        notes: Networks that were left out, one line a pool.
    """

    state: State
    candidates: Sequence[Candidate]
    tests: Sequence[Sequence[Ranking]]
    notes: Sequence[str]


def discover(config: EvolveConfig, *, each: Callable[[State], None] = lambda state: None) -> Discovery:
    """Search for programs, from where the folder's state is, and test the best.

    Raises:
        ZcbenchError: Whatever the user has to mend.
    """
    _check(config)
    grounds = [_ground(config, ground) for ground in config.grounds]
    folder = Path(config.out)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = Vocabulary(dict.fromkeys(TERMINALS, "tensor"), PRIMITIVES, config.engine.height_limit)
    pools = [pool for study in grounds for pool in _pools(config, study)]
    recipe = _recipe(config, pools)
    reading = Reading(config.to_scalar, config.aggregation)
    measure = Measure(config.draw, config.grounds_drawn, config.objective, config.top, config.sign)
    with Workers(config.devices) as workers:
        problem = NetworkProblem(pools, reading, measure, workers)

        def record(state: State) -> None:
            frame = pd.DataFrame([dataclasses.asdict(generation) for generation in state.records])
            _write_frame(folder / "generations.parquet", frame)
            each(state)

        representation: Any = Machines(vocabulary) if config.representation == "sequential" else Trees(vocabulary)
        state = evolve(problem, representation, config.engine, folder, recipe, each=record)
        programs = {representation.express(representation.parse(text)): values[0] for text, values in state.hall}
        last = [(representation.express(representation.parse(text)), values[0]) for text, values in state.population]
        best, met = max(last, key=lambda item: item[1])
        programs.setdefault(best, met)
        candidates = _ranked(problem, programs, config)
    files = [_write(config, candidate, recipe, folder) for candidate in candidates[:KEPT]]
    _write_frame(folder / "hall.parquet", pd.DataFrame([candidate.flat() for candidate in candidates]))
    tested = [_ground(config, ground) for ground in config.tests] or grounds
    tests = [_test(config, study, files) for study in tested] if config.test else []
    notes = [f"{p.name}: {len(p.lacking)} networks are left out: {p.lacking[0]}" for p in pools if p.lacking]
    return Discovery(state, candidates, tests, notes)


def _check(config: EvolveConfig) -> None:
    if not config.grounds:
        raise ConfigError("grounds: expected at least one space and data set")
    if config.pool < 3 or config.draw < 0 or config.draw > config.pool or 0 < config.draw < 3 or config.test < 0:
        raise ConfigError(
            f"pool: expected 3 or more networks and a draw of 3 to so many, or 0 for all, got {config.pool} and "
            f"{config.draw}"
        )
    if not config.seeds or not config.batch_sizes:
        raise ConfigError("seeds, batch_sizes: expected at least one of each")
    if config.engine.pareto and config.engine.parsimony:
        raise ConfigError("engine: expected parsimony or pareto, both make programs small")


def _ground(config: EvolveConfig, ground: Ground) -> Study:
    """Resolve the networks of a ground as a study: the first are its pool, the others for the test."""
    return resolve(
        StudyConfig(
            space=ground.space,
            dataset=ground.dataset,
            accuracy=ground.accuracy,
            proxies=["params"],
            sample=config.pool + config.test,
            sample_seed=config.sample_seed,
            batch_sizes=list(config.batch_sizes),
            seeds=list(config.seeds),
            out=str(Path(config.out) / "scores"),
            data=config.data,
            include=config.include,
            tracker="none",
            trainer=TrainerConfig(devices=config.devices),
        )
    )


def _pools(config: EvolveConfig, study: Study) -> list[Pool]:
    """Collect the statistics of a ground's pool, for every batch size and seed."""
    bank = Bank(Path(config.statistics or Path(config.out) / "statistics"), config.collection, config.dtype)
    indices = study.indices[: config.pool]
    networks = [(study.space, index) for index in indices]
    accuracies = np.array([study.truth.values[index] for index in indices])
    name = f"{study.space.name} on {study.images.name}"
    pools = []
    for size, seed in study.batches:
        handles = bank.build(networks, study.images, size, seed, devices=config.devices)
        kept = [i for i, handle in enumerate(handles) if not handle.failure and np.isfinite(accuracies[i])]
        lacking = [handle.failure for handle in handles if handle.failure]
        if len(kept) < 3:
            raise ConfigError(
                f"grounds: {name} has {len(kept)} networks with instances of {config.collection} in a pool of "
                f"{len(indices)}{f' ({lacking[0][:80]})' if lacking else ''}: expected 3 or more, or another collection"
            )
        pools.append(Pool(f"{name}, batch {size}, seed {seed}", [handles[i] for i in kept], accuracies[kept], lacking))
    return pools


def _recipe(config: EvolveConfig, pools: Sequence[Pool]) -> dict[str, Any]:
    """Return all that decides how a search goes: neither how many processes, nor how far it is to go."""
    document = dataclasses.asdict(config)
    for free in (
        *("out", "statistics", "data", "include", "devices", "tracker", "test", "tests", "test_batch_size"),
        *("over", "results", "proxies", "halves"),
    ):
        document.pop(free)
    document["engine"].pop("generations")
    names = {name: version for name, version in environment().items() if name in {"zcbench", "torch", "cpu"}}
    networks = {pool.name: [handle.path.stem for handle in pool.handles] for pool in pools}
    return {**document, "statistics_version": VERSION, "protocol": PROTOCOL, "environment": names, "pools": networks}


def _ranked(problem: NetworkProblem, programs: dict[Program, float], config: EvolveConfig) -> list[Candidate]:
    everything = problem.everything()
    coefficients = problem.coefficients(list(programs), everything)
    names = [pool.name for pool in problem.pools]
    found = [
        Candidate(str(p), p.size, fitness(row.tolist(), config.sign), met, dict(zip(names, row.tolist(), strict=True)))
        for (p, met), row in zip(programs.items(), coefficients, strict=True)
    ]
    return sorted(found, key=lambda c: c.size * config.engine.parsimony - c.fitness)


def _write(config: EvolveConfig, candidate: Candidate, recipe: dict[str, Any], folder: Path) -> Path:
    """Write a program file; what says better and lower is the sign at most of the pools."""
    up = sum(np.sign(tau) for tau in candidate.tau.values()) >= 0
    digest = hashlib.sha256(f"{candidate.program} {config.collection}".encode()).hexdigest()
    found = Found(
        name=f"evolved-{digest[:6]}",
        program=candidate.program,
        direction="higher" if up else "lower",
        collection=config.collection,
        to_scalar=config.to_scalar,
        aggregation=config.aggregation,
        batch_size=max(config.batch_sizes),
        recipe={key: value for key, value in recipe.items() if key != "pools"} | {"tau": candidate.tau},
    )
    path = folder / "programs" / f"{found.name}.json"
    found.write(path)
    return path


def _test(config: EvolveConfig, ground: Study, files: Sequence[Path]) -> list[Ranking]:
    """Score networks of a ground that are not in its pool with the programs found, and with proxies known."""
    names = list(dict.fromkeys(register(path) for path in files))
    study_config = dataclasses.replace(
        ground.config, proxies=[*names, *BESIDE], batch_sizes=[config.test_batch_size or max(config.batch_sizes)]
    )
    study = resolve(study_config)
    study = dataclasses.replace(study, indices=study.indices[config.pool :])
    if not study.indices or not run_study(study):
        return []
    return summarise(study.recipe, select(study.store, study.recipe))


def _write_frame(path: Path, frame: pd.DataFrame) -> None:
    write_atomically(path, frame.to_parquet(index=False))
