"""A search from beginning to end: statistics, evolution, the best programs as files, and their test."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from ...atomic import write_atomically
from ...bench.results.ranking import Ranking, select, summarise
from ...bench.scoring.runner import run as run_study
from ...bench.scoring.store import Store
from ...bench.study.config import PROTOCOL, StudyConfig, TrainerConfig
from ...bench.study.resolve import Study, resolve
from ...datasets import data_folder
from ...environment import environment
from ...errors import ConfigError
from ...plugins import load
from ...progress import Progress
from ...spaces import SPACES
from ..data.bank import Bank
from ..data.statistics import TERMINALS, VERSION
from ..data.workers import Workers
from ..engine.fitness import NOTHING, Objective, fitness
from ..engine.generations import State, check, evolve, last_state
from ..engine.networks import Measure, NetworkProblem, Pool, Reading
from ..language import primitives
from ..language.primitives import PRIMITIVES
from ..language.programs import Program, Vocabulary
from ..language.register_machines import Machines
from ..language.variation import Trees
from .config import EvolveConfig, Ground
from .found import HEIGHT_LIMIT, Found

#: What the best programs are tested beside.
BESIDE = ("eznas_a", "params", "macs", "synflow", "naswot")

#: How many of the best programs are written and tested.
KEPT = 3


@dataclass(frozen=True)
class Candidate:
    """One of the best programs, measured on all networks of all pools.

    Attributes:
        name: Of its proxy, and of its file if it has one.
        program: As text.
        size: Its nodes.
        fitness: On all networks; `NOTHING` if it has no finite score on one of them.
        met: Its fitness when it was met, on what was drawn then.
        tau: Kendall's tau by pool, or what else the objective is, signed.
    """

    name: str
    program: str
    size: int
    fitness: float
    met: float
    tau: dict[str, float]

    @property
    def direction(self) -> Literal["higher", "lower"]:
        """What is better: the sign at most of the pools."""
        return _direction(self.tau.values())

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        record = {key: value for key, value in vars(self).items() if key != "tau"}
        if self.fitness == NOTHING:
            record["fitness"] = math.nan
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
    # Collecting statistics takes long: every fault comes to light before.
    objective = _check(config)
    vocabulary = Vocabulary(dict.fromkeys(TERMINALS, "tensor"), PRIMITIVES, config.engine.height_limit)
    representation: Any = Machines(vocabulary) if config.representation == "sequential" else Trees(vocabulary)
    for text in config.engine.start:
        representation.parse(text)
    grounds = [_ground(config, ground, config.batch_sizes) for ground in config.grounds]
    size = config.test_batch_size or max(config.batch_sizes)
    tested = [_ground(config, ground, [size]) for ground in config.tests or config.grounds] if config.test else []
    folder = Path(config.out)
    folder.mkdir(parents=True, exist_ok=True)
    recipe = _recipe(config)
    last_state(folder, recipe)
    pools = [pool for study in grounds for pool in _pools(config, study)]
    recipe["pools"] = {pool.name: [handle.path.stem for handle in pool.handles] for pool in pools}
    reading = Reading(config.to_scalar, config.aggregation)
    measure = Measure(config.draw, config.grounds_drawn, objective, config.top, config.sign, config.exact)
    with Workers(config.devices) as workers:
        problem = NetworkProblem(pools, reading, measure, workers)

        def record(state: State) -> None:
            frame = pd.DataFrame([dataclasses.asdict(generation) for generation in state.records])
            _write_frame(folder / "generations.parquet", frame)

        def then(state: State) -> None:
            record(state)
            each(state)

        state = evolve(problem, representation, config.engine, folder, recipe, each=then)
        record(state)  # which a run that was killed may have missed
        programs = {representation.express(representation.parse(text)): values[0] for text, values in state.hall}
        last = [(representation.express(representation.parse(text)), values[0]) for text, values in state.population]
        best, met = max(last, key=lambda item: item[1])
        programs.setdefault(best, met)
        candidates = _ranked(problem, programs, config)
    ranking = [candidate for candidate in candidates if candidate.fitness > NOTHING]
    files = [_write(config, candidate, recipe, folder) for candidate in ranking[:KEPT]]
    _write_frame(folder / "hall.parquet", pd.DataFrame([candidate.flat() for candidate in candidates]))
    tests = [_test(config, study, files) for study in tested]
    notes = [f"{p.name}: {len(p.lacking)} networks are left out, such as: {p.lacking[0]}" for p in pools if p.lacking]
    return Discovery(state, candidates, tests, notes)


def _check(config: EvolveConfig) -> Objective:
    check(config.engine)
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
    if (limit := config.engine.height_limit) > HEIGHT_LIMIT:
        raise ConfigError(f"engine: expected a height_limit of at most {HEIGHT_LIMIT}, got {limit}")
    if config.grounds_drawn < 0:
        raise ConfigError(f"grounds_drawn: expected 0 for all, or more, got {config.grounds_drawn}")
    if config.exact < 0:
        raise ConfigError(f"exact: expected 0 for all programs, or more, got {config.exact}")
    if not 0 < config.top <= 1:
        raise ConfigError(f"top: expected a share above 0, at most 1, got {config.top}")
    if config.objective == "both":
        raise ConfigError(f"objective: expected {', '.join(get_args(Objective))}: both is for aggregates")
    return config.objective


def _ground(config: EvolveConfig, ground: Ground, batch_sizes: Sequence[int]) -> Study:
    """Resolve the networks of a ground as a study: the first are its pool, the others for the test."""
    load(_included(config))
    space = SPACES[ground.space](data_folder(config.data))
    if config.pool + config.test > space.size:
        raise ConfigError(
            f"grounds: {space.name} has {space.size} networks: expected pool and test to be at most so many, got "
            f"{config.pool} + {config.test}"
        )
    return resolve(
        StudyConfig(
            space=ground.space,
            dataset=ground.dataset,
            accuracy=ground.accuracy,
            proxies=["params"],
            sample=config.pool + config.test,
            sample_seed=config.sample_seed,
            batch_sizes=list(batch_sizes),
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
        lacking = [handle.failure or "it has no accuracy" for i, handle in enumerate(handles) if i not in set(kept)]
        if len(kept) < 3:
            raise ConfigError(
                f"grounds: {name}: only {len(kept)} of {len(indices)} networks of the pool have an accuracy and "
                f"instances of {config.collection} ({lacking[0][:80]}): expected 3 or more, or another collection"
            )
        if np.ptp(accuracies[kept]) == 0:
            raise ConfigError(
                f"grounds: all {len(kept)} networks in the pool of {name} have an accuracy of {accuracies[kept[0]]:g}: "
                "expected accuracies that differ"
            )
        pools.append(Pool(f"{name}, batch {size}, seed {seed}", [handles[i] for i in kept], accuracies[kept], lacking))
    return pools


def _recipe(config: EvolveConfig) -> dict[str, Any]:
    """Return all but pools that decides how a search goes: neither how many processes, nor how far it is to go."""
    document = dataclasses.asdict(config)
    for free in (
        *("out", "statistics", "data", "include", "devices", "tracker", "test", "tests", "test_batch_size"),
        *("over", "results", "proxies", "halves"),
    ):
        document.pop(free)
    document["engine"].pop("generations")
    names = {name: version for name, version in environment().items() if name in {"zcbench", "torch", "cpu"}}
    return {
        **document,
        "versions": [VERSION, primitives.VERSION],
        "protocol": PROTOCOL,
        "environment": names,
    }


def _ranked(problem: NetworkProblem, programs: dict[Program, float], config: EvolveConfig) -> list[Candidate]:
    everything = problem.everything()
    progress = Progress("networks that the best programs are measured on", len(problem.handles))
    try:
        for ground, chosen in everything.items():  # scores are kept, so that all grounds together cost nothing more
            problem.coefficients(list(programs), {ground: chosen})
            progress.advance(len(chosen))
    finally:
        progress.close()
    coefficients = problem.coefficients(list(programs), everything)
    names = [pool.name for pool in problem.pools]
    found = [
        Candidate(
            _found(config, str(program), _direction(row)).name,
            str(program),
            program.size,
            fitness(row, config.sign),
            met,
            dict(zip(names, row, strict=True)),
        )
        for (program, met), row in zip(programs.items(), coefficients.tolist(), strict=True)
    ]
    return sorted(found, key=lambda c: c.size * config.engine.parsimony - c.fitness)


def _direction(tau: Iterable[float]) -> Literal["higher", "lower"]:
    return "higher" if sum(np.sign(t) for t in tau) >= 0 else "lower"


def _found(config: EvolveConfig, program: str, direction: Literal["higher", "lower"]) -> Found:
    """Return a program with all that makes a score of it, named by a digest of the same."""
    found = Found(
        name="",
        program=program,
        direction=direction,
        collection=config.collection,
        to_scalar=config.to_scalar,
        aggregation=config.aggregation,
        batch_size=max(config.batch_sizes),
    )
    digest = hashlib.sha256(json.dumps(dataclasses.asdict(found)).encode()).hexdigest()
    return dataclasses.replace(found, name=f"evolved-{digest[:6]}")


def _write(config: EvolveConfig, candidate: Candidate, recipe: dict[str, Any], folder: Path) -> Path:
    found = _found(config, candidate.program, candidate.direction)
    own = {key: value for key, value in recipe.items() if key != "pools"} | {"tau": candidate.tau}
    path = folder / "programs" / f"{found.name}.json"
    dataclasses.replace(found, recipe=own).write(path)
    return path


def _test(config: EvolveConfig, ground: Study, files: Sequence[Path]) -> list[Ranking]:
    """Score networks of a ground that are not in its pool with the programs found, and with proxies known."""
    study_config = dataclasses.replace(
        ground.config,
        proxies=[*(path.stem for path in files), *BESIDE],
        # Workers that are spawned read these files themselves.
        include=[*_included(config), *map(str, files)],
    )
    study = resolve(study_config)
    study = dataclasses.replace(study, indices=study.indices[config.pool :])
    if not study.indices or not run_study(study):
        return []
    return summarise(study.recipe, select(Store(study.out), study.recipe))


def _included(config: EvolveConfig) -> list[str]:
    return [config.include] if isinstance(config.include, str) else list(config.include)


def _write_frame(path: Path, frame: pd.DataFrame) -> None:
    write_atomically(path, frame.to_parquet(index=False))
