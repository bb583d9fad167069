"""A search for programs from beginning to end: statistics, evolution, the best programs as files, and their test."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from ...atomic import write_atomically
from ...bench.results.ranking import Ranking, select, summarise
from ...bench.scoring.runner import run as run_study
from ...bench.scoring.store import Store
from ...bench.study.config import listed
from ...bench.study.resolve import Study, resolve
from ...engine import Workers
from ...errors import ConfigError
from ...progress import Progress
from ..engine.fitness import NOTHING, Objective, fitness
from ..engine.generations import State, evolve, last_state, programs
from ..engine.layers import LayerProblem
from ..engine.networks import NetworkProblem, Pool
from ..language.programs import Program
from .found import Found, digest, read
from .resolve import ProgramSearch

#: Proxies that the best programs are compared with in the test.
BESIDE = ("eznas_a", "params", "macs", "synflow", "naswot")

#: Kinds of fitness that the best programs over layers are reported by, whatever they were evolved for.
KINDS: tuple[Objective, ...] = ("tau", "gain", "partial", "top")

#: Number of the best programs that are written to files and tested.
KEPT = 3


@dataclass(frozen=True)
class Candidate:
    """One of the best programs, measured on all networks of all pools.

    Attributes:
        found: Program with the settings that determine its score; the direction has the sign of most of the pools.
        fitness: Fitness on all networks; `NOTHING` if a score is not finite.
        met: Fitness in the generation that met the program, on the networks that were drawn then.
        tau: Signed coefficient of the objective, by pool.
        validation: Fitness on the networks of the validation classes; NaN if the search is not by class.
        kinds: The least coefficient over the pools by every kind of fitness, for programs over layers; those of the
            networks of the validation classes are called `validation …`.
    """

    found: Found
    size: int
    fitness: float
    met: float
    tau: dict[str, float]
    validation: float = math.nan
    kinds: dict[str, float] = field(default_factory=dict)

    def flat(self) -> dict[str, Any]:
        """Return a dictionary of plain values, for a table."""
        measured = math.nan if self.fitness == NOTHING else self.fitness
        record = {"name": self.found.name, "program": self.found.program, "size": self.size, "fitness": measured}
        record |= {"met": self.met} | {f"tau of {pool}": tau for pool, tau in self.tau.items()}
        return (
            record
            | ({"validation": self.validation} if self.kinds or not math.isnan(self.validation) else {})
            | self.kinds
        )


@dataclass(frozen=True)
class Discovery:
    """The result of a search for programs.

    Attributes:
        candidates: Best programs, in descending order of fitness; of a search by class, that on the validation classes.
        tests: Rankings of networks outside the pools by the best programs and by other proxies, one list per ground.
        notes: One line for every pool from which networks were left out.
    """

    state: State
    candidates: Sequence[Candidate]
    tests: Sequence[Sequence[Ranking]]
    notes: Sequence[str]


def discover(search: ProgramSearch, *, each: Callable[[State], None] = lambda state: None) -> Discovery:
    """Run a search for programs, or continue it, write its best programs and test them."""
    out = search.out
    out.mkdir(parents=True, exist_ok=True)
    # Collecting statistics takes long, so the folder of another search is refused before.
    last_state(out, dict(search.recipe))
    pools = [pool for study in search.grounds for pool in pools_of(search, study, slice(search.pool))]
    chosen = slice(search.pool, None)  # the networks of the validation classes
    others = [p for study in search.grounds for p in pools_of(search, study, chosen)] if search.by_class else []
    recipe = {**search.recipe, "pools": {pool.name: [handle.path.stem for handle in pool.handles] for pool in pools}}
    with Workers(search.workers) as workers:
        kind = LayerProblem if search.over == "layers" else NetworkProblem
        problem = kind(pools, search.scoring, search.measure, workers)

        def record(state: State) -> None:
            _write_frame(out / "generations.parquet", [dataclasses.asdict(generation) for generation in state.records])

        def then(state: State) -> None:
            record(state)
            each(state)

        state = evolve(problem, search.representation, search.engine, out, recipe, each=then)
        record(state)  # a run that was killed may have missed the last record
        met = dict(programs(search.representation, state.hall))
        last = programs(search.representation, state.population)
        met.setdefault(*max(last, key=lambda item: item[1]))
        candidates = _candidates(search, problem, met)
        if others:
            candidates = _validated(search, kind(others, search.scoring, search.measure, workers), candidates)
    ranking = [candidate for candidate in candidates if candidate.fitness > NOTHING]
    files = [_write(search, candidate) for candidate in ranking[:KEPT]]
    _write_frame(out / "hall.parquet", [candidate.flat() for candidate in candidates])
    tests = [] if search.by_class else [_test(study, search.pool, files) for study in search.tests]
    notes = [f"{p.name}: {len(p.lacking)} networks are left out, such as: {p.lacking[0]}" for p in pools if p.lacking]
    return Discovery(state, candidates, tests, notes)


def pools_of(search: ProgramSearch, study: Study, part: slice) -> list[Pool]:
    """Collect the statistics of some networks of a ground, one pool for every batch size and seed."""
    bank, workers = search.bank, search.workers
    indices = study.indices[part]
    networks = [(study.space, index) for index in indices]
    accuracies = np.array([study.truth.values[index] for index in indices])
    name = f"{study.space.name} on {study.images.name}"
    pools = []
    for batch_size, seed in study.batches:
        handles = bank.build(networks, study.images, batch_size, seed, workers=workers)
        kept = [i for i, handle in enumerate(handles) if not handle.failure and np.isfinite(accuracies[i])]
        lacking = [handle.failure or "it has no accuracy" for i, handle in enumerate(handles) if i not in set(kept)]
        if len(kept) < 3:
            raise ConfigError(
                f"grounds: {name}: only {len(kept)} of {len(indices)} networks of the pool have an accuracy and "
                f"instances of {bank.collection} ({lacking[0][:80]}): expected 3 or more, or another collection"
            )
        if np.ptp(accuracies[kept]) == 0:
            raise ConfigError(
                f"grounds: all {len(kept)} networks in the pool of {name} have an accuracy of {accuracies[kept[0]]:g}: "
                "expected accuracies that differ"
            )
        title = f"{name}, batch {batch_size}, seed {seed}"
        pools.append(Pool(title, [handles[i] for i in kept], accuracies[kept], lacking))
    return pools


def _candidates(search: ProgramSearch, problem: NetworkProblem, met: Mapping[Program, float]) -> list[Candidate]:
    """Measure programs on all networks of all pools and return them, the best first."""
    everything = problem.everything()
    with Progress("networks that the best programs are measured on", len(problem.handles)) as progress:
        for ground, chosen in everything.items():  # the problem keeps these scores, so the call below computes none
            problem.coefficients(list(met), {ground: chosen})
            progress.advance(len(chosen))
    coefficients = problem.coefficients(list(met), everything)
    names = [pool.name for pool in problem.pools]
    found = [
        Candidate(
            _found(search, str(program), "higher" if np.sign(row).sum() >= 0 else "lower"),
            program.size,
            fitness(row, search.measure.sign),
            when_met,
            dict(zip(names, row, strict=True)),
            kinds=kinds,
        )
        for (program, when_met), row, kinds in zip(
            met.items(), coefficients.tolist(), _kinds(search, problem, list(met)), strict=True
        )
    ]
    return sorted(found, key=lambda c: c.size * search.engine.parsimony - c.fitness)


def _validated(search: ProgramSearch, problem: NetworkProblem, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Measure candidates on the networks of the validation classes, and return them, the best there first."""
    trees = [candidate.found.tree() for candidate in candidates]
    rows = problem.coefficients(trees, problem.everything())
    kinds = _kinds(search, problem, trees)
    measured = [
        dataclasses.replace(
            candidate,
            validation=fitness(row, search.measure.sign),
            kinds=candidate.kinds | {f"validation {name}": value for name, value in own.items()},
        )
        for candidate, row, own in zip(candidates, rows.tolist(), kinds, strict=True)
    ]
    return sorted(measured, key=lambda c: c.size * search.engine.parsimony - c.validation)


def _kinds(search: ProgramSearch, problem: NetworkProblem, programs: Sequence[Program]) -> list[dict[str, float]]:
    """Return the least coefficient of every program over the pools by every kind of fitness, for layer tables."""
    if search.over != "layers":
        return [{} for _ in programs]
    found = {kind: problem.coefficients(programs, problem.everything(), kind).min(1) for kind in KINDS}
    return [{kind: float(values[place]) for kind, values in found.items()} for place in range(len(programs))]


def _found(search: ProgramSearch, program: str, direction: Literal["higher", "lower"]) -> Found:
    """Return a program with all settings that determine its score, named by a digest of them."""
    found = Found(
        name="",
        program=program,
        direction="higher" if search.measure.sign == "higher" else direction,
        batch_size=search.batch_size,
        over=search.over,
    )
    if search.bank.collection != "layers":
        found = dataclasses.replace(
            found,
            collection=search.bank.collection,
            to_scalar=search.scoring.to_scalar,
            aggregation=search.scoring.aggregation,
        )
    return dataclasses.replace(found, name=f"evolved-{digest(found)[:6]}")


def _write(search: ProgramSearch, candidate: Candidate) -> Path:
    """Write the file of a program."""
    path = search.out / "programs" / f"{candidate.found.name}.json"
    # In a dictionary of its own, because a kind of fitness may be named like a setting: `top`.
    measured = {"least": candidate.kinds} if candidate.kinds else {}
    # How many validation networks chose it does not change the search, and says what it has seen.
    chosen = {"test": len(search.grounds[0].indices) - search.pool} if search.by_class else {}
    recipe = {**search.recipe, **chosen, **measured, "tau": candidate.tau}
    former = read(path) if path.exists() else candidate.found
    if chosen and type(before := former.recipe.get("test")) is int:  # a later choice forgets no network of this one
        recipe["test"] = max(recipe["test"], before)
    dataclasses.replace(candidate.found, recipe=recipe, openings=former.openings).write(path)
    return path


def _test(ground: Study, pool: int, files: Sequence[Path]) -> list[Ranking]:
    """Score the networks of a ground that are not in its pool with the programs of files and with known proxies."""
    config = dataclasses.replace(
        ground.config,
        proxies=[*(path.stem for path in files), *BESIDE],
        # Workers that are spawned read these files themselves.
        include=[*listed(ground.config.include), *map(str, files)],
    )
    study = resolve(config)
    study = dataclasses.replace(study, indices=study.indices[pool:])
    if not study.indices:
        return []
    run_study(study)
    return summarise(study.recipe, select(Store(study.out), study.recipe))


def _write_frame(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    write_atomically(path, pd.DataFrame(records).to_parquet(index=False))
