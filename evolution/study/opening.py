"""The opening of sealed networks: programs rank classes that nothing has read, and each opening is recorded."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ...bench.report.rivals import as_table, lowest_table
from ...bench.results.ranking import select, summarise
from ...bench.results.rivals import Against, against, boards_on, lowest
from ...bench.scoring.runner import run as run_study
from ...bench.scoring.store import Store
from ...bench.stats.top import FEWEST
from ...bench.study.config import StudyConfig, listed
from ...bench.study.resolve import Study, resolve
from ...errors import ConfigError, ProgramError, ResultsError
from ..data.split import draw
from . import found as files
from .config import EvolveConfig, Ground

#: The proxies that a program is compared with, unless a configuration names others.
RIVALS = ("meco", "naswot_conv", "synflow", "params", "macs")


def open_sealed(programs: Sequence[Path], config: EvolveConfig) -> list[Table]:
    """Rank sealed networks of every ground by programs and their rivals, and record the result in each program's file.

    Networks are `config.test` classes of the sealed part of a space, or all if it has fewer. Of several grounds,
    programs and rivals are also compared by their lowest tau over the grounds. Every record has the date, the settings
    that determine the networks and the images, and what came out, also if it is worse than hoped for. It is written
    before anything is scored, as one that has `begun`, and again with what came out.

    Raises:
        ProgramError: A file is no program file, or the program was edited after an opening.
        ConfigError: A ground has fewer than ten sealed classes, or a program may have been evolved on them.
    """
    if config.test < FEWEST:
        raise ConfigError(f"test: expected {FEWEST} or more sealed networks, got {config.test}")
    for path in programs:
        _check(files.read(path), path, [ground.space for ground in config.tests or config.grounds])
        files.register(path)
    tables: list[Table] = []
    everywhere: dict[Path, list[Against]] = {path: [] for path in programs}
    for ground in config.tests or config.grounds:
        study = _study(programs, ground, config)
        what = _what(study, ground, config)
        for path in programs:
            _begin(path, what)
        run_study(study)
        store = Store(study.out)
        rankings = {r.proxy: r for r in summarise(study.recipe, select(store, study.recipe))}
        boards = [
            board
            for board in boards_on(study.out, spaces=[ground.space], datasets=[ground.dataset])
            if board.recipe.accuracies == study.recipe.accuracies and board.recipe.batches == study.recipe.batches
        ]
        for path in programs:
            program = files.read(path)
            (found,) = against(study.out, program.name, _rivals(config), boards)
            c = rankings[program.name].correlation
            own: dict[str, Any] = {"tau": c.tau, "tau_low": c.tau_low, "tau_high": c.tau_high, "n": c.n}
            if c.tau_top_accuracy == c.tau_top_accuracy:  # NaN if the most accurate tenth has fewer than ten networks
                ends = {"tau_top_low": c.tau_top_accuracy_low, "tau_top_high": c.tau_top_accuracy_high}
                own |= {"tau_top": c.tau_top_accuracy, **ends}
            record = {**what, **own, "against": _differences(found), "program": files.digest(program)}
            kept = [each for each in program.openings if not _is_begun(each, what)]
            dataclasses.replace(program, openings=[*kept, record]).write(path)
            tables.append(as_table(found))
            everywhere[path].append(found)
    least = [(lowest(found), len(found)) for found in everywhere.values()]
    return [*tables, *(lowest_table(rows, count) for rows, count in least if rows)]


def _check(program: files.Found, path: Path, spaces: Sequence[str]) -> None:
    """Refuse a program that other networks than those of the pool may have chosen, and one that was edited."""
    recipe = program.recipe
    grounds = [str(ground.get("space")) for ground in recipe.get("grounds", ()) if isinstance(ground, dict)]
    known = {*grounds, *(str(pool).partition(" on ")[0] for pool in recipe.get("pools", ()))}
    if recipe.get("split") != "classes" and (seen := sorted(known & set(spaces))):
        raise ConfigError(
            f"open: {path} was evolved on networks of {', '.join(seen)} without `split: classes`, so sealed ones "
            "may be among them: evolve it with --split classes"
        )
    if any(record.get("program") != files.digest(program) for record in program.openings):
        raise ProgramError(f"program {path} is not what its openings are of: restore it, or begin a file of its own")


def _begin(path: Path, what: dict[str, Any]) -> None:
    """Record that sealed networks are about to be opened, unless a process that was killed has done so."""
    program = files.read(path)
    if not any(_is_begun(record, what) for record in program.openings):
        record = {**what, "begun": True, "program": files.digest(program)}
        dataclasses.replace(program, openings=[*program.openings, record]).write(path)


def _is_begun(record: dict[str, Any], what: dict[str, Any]) -> bool:
    """Return whether a record is that of the same opening on whatever day, before anything came out."""
    return "begun" in record and all(record.get(name) == value for name, value in what.items() if name != "date")


def _rivals(config: EvolveConfig) -> list[str]:
    return listed(config.proxies) or list(RIVALS)


def _study(programs: Sequence[Path], ground: Ground, config: EvolveConfig) -> Study:
    """Return the study of sealed networks of a ground."""
    sizes = {files.read(path).batch_size for path in programs}
    if len(sizes) > 1:
        raise ResultsError(f"open: expected programs of one batch size, got {', '.join(map(str, sorted(sizes)))}")
    study = resolve(
        StudyConfig(
            space=ground.space,
            dataset=ground.dataset,
            accuracy=ground.accuracy,
            proxies=[*(files.read(path).name for path in programs), *_rivals(config)],
            include=[*listed(config.include), *map(str, programs)],
            sample=config.test,
            batch_sizes=[ground.batch_size or config.test_batch_size or sizes.pop()],
            seeds=listed(config.seeds),
            out=str(Path(config.out) / "sealed"),
            data=config.data,
            tracker="none",
            workers=config.workers,
        )
    )
    indices = draw(study.space, "sealed", config.test, config.sample_seed, at_most=True)
    if len(indices) < FEWEST:
        raise ConfigError(f"open: {ground.space} has {len(indices)} sealed classes: expected {FEWEST} or more")
    return dataclasses.replace(study, indices=tuple(indices))


def _what(study: Study, ground: Ground, config: EvolveConfig) -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "space": ground.space,
        "dataset": ground.dataset,
        "n": len(study.indices),
        "truth": study.truth.name,
        "batch_sizes": listed(study.config.batch_sizes),
        "seeds": listed(study.config.seeds),
        "sample_seed": config.sample_seed,
    }


def _differences(found: Against) -> dict[str, Any]:
    """Return tau of every rival, and by how much the program's is higher, with the ends of the paired interval."""
    return {
        row.second.proxy: {
            "tau": row.tau.second,
            "difference": row.tau.difference,
            "low": row.tau.low,
            "high": row.tau.high,
        }
        for row in found.comparisons
    }
