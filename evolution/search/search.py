"""One search: it is resolved, played, and reported in a table, a file of rows, a recipe and a figure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.table import Table

from ...atomic import write_atomically
from ...bench.report.figures import available
from ...bench.report.numbers import null_if_not_finite
from ...bench.report.tracking import Session, digest
from ...bench.report.tracking import as_table as as_wandb
from ...bench.study.config import StudyConfig, distinct, listed
from ...bench.study.resolve import Study, resolve
from ...datasets import DATASETS, data_folder
from ...datasets.tasks import Task
from ...environment import environment
from ...errors import ConfigError, ResultsError
from ...plugins import load
from ...proxies.aggregate import split
from ...spaces import SPACES, Space
from . import aging, sampling, untrained  # noqa: F401 - they register their methods
from .asks import METHODS, Method
from .benchmark import Benchmark, read_benchmark
from .config import CONFIG_VERSION, SearchConfig
from .hnas import agreement
from .keep import survivals
from .outcome import Outcome, lines, outcomes
from .play import Run, play
from .report import agreement_table, as_figure, rows, survival_figure, survival_rows, survival_table, tables
from .scores import Scores
from .untrained.found import report as report_best
from .untrained.fronts import report as report_fronts


@dataclasses.dataclass(frozen=True)
class Plan:
    """A search that is ready to run.

    Attributes:
        benchmark: The accuracies; None if no method trains.
        study: What networks are scored with; None if no method scores.
        runs: The runs of all methods, proxies and repeats, not played yet.
    """

    config: SearchConfig
    benchmark: Benchmark | None
    study: Study | None
    runs: tuple[Run, ...]


def search(config: SearchConfig) -> tuple[list[Table], list[str], int]:
    """Run a search; return tables of its result, lines that say where its files are, and how many scores failed."""
    plan = resolve_search(config)
    space, task = space_and_task(config)
    with nullcontext() if plan.study is None else Scores(plan.study, representatives=config.representatives) as scores:
        play(plan.runs, space, task, config, plan.benchmark, scores)
    made: list[Table] = []
    notes: list[str] = []
    others = [report(plan.runs, space, task, config) for report in (report_fronts, report_best)]
    found = [] if plan.benchmark is None else outcomes(plan.runs, plan.benchmark)
    files = {"search.json": json.dumps(recipe(plan, found), indent=1, allow_nan=False)}
    if plan.benchmark is not None and found:
        made += tables(found, plan.benchmark, config.repeats)
        files["search.csv"] = rows(plan.runs, plan.benchmark, config.dataset).to_csv(index=False)
        title = f"{config.space}, {plan.benchmark.test.name}, {config.repeats} repeats: mean and 95 % interval"
        if available():
            files["search.svg"] = as_figure(lines(plan.runs), plan.benchmark, title)
        if kept := survivals(plan.runs, plan.benchmark, config.top, config.fraction):
            made.append(survival_table(kept, config.top, config.fraction))
            files["keep.csv"] = survival_rows(kept).to_csv(index=False)
            if available():
                files["keep.svg"] = survival_figure(kept, config.top, title)
        if ranked := agreement(plan.runs):
            made.append(agreement_table(ranked))
        notes.append(_guide(plan.benchmark, config.dataset))
    for more, said in others:
        made += more
        notes += said
    notes.append(_write(Path(config.out), files))
    if found:
        notes.append(_track(plan, found))
    if scores is not None:
        notes += [*scores.lacking(), f"scores: {config.results}, {scores.computed} networks scored now"]
    return made, [*filter(None, notes)], len(scores.failed) if scores is not None else 0


def resolve_search(config: SearchConfig) -> Plan:
    """Look up the names of a configuration, read its files, and check its numbers. Nothing is written.

    Raises:
        ZcbenchError: A setting is wrong, or a file is absent or faulty.
    """
    if config.version != CONFIG_VERSION:
        raise ConfigError(f"version: expected {CONFIG_VERSION}, got {config.version}")
    if config.repeats < 1:
        raise ConfigError(f"repeats: expected 1 or more, got {config.repeats}")
    load(listed(config.include))
    space, task = space_and_task(config)
    names, proxies = distinct("method", listed(config.method)), distinct("proxy", listed(config.proxy))
    if not names:
        raise ConfigError(f"method: expected one or more of {', '.join(METHODS)}, got none")
    methods = {name: METHODS[name] for name in names}
    split(proxies)
    benchmark = None
    if any(method.trains for method in methods.values()):
        folder = data_folder(config.data)
        others = [DATASETS[name](folder).task.name for name in distinct("transfer", listed(config.transfer))]
        benchmark = read_benchmark(space, task.name, config.validation, config.test, others)
    for name, method in methods.items():
        if method.scores and not proxies:
            raise ConfigError(f"proxy: expected the name of one that guides {name}, got none: add --proxy NAME")
        method.check(config, space)
    if config.seconds and (benchmark is None or benchmark.seconds is None):
        raise ConfigError(
            f"seconds: expected an accuracy whose seconds of training are in a file of {space.name}, got "
            f"{benchmark.validation.name if benchmark else 'none'}: leave the setting out"
        )
    scored = _scored(methods, proxies)
    runs = tuple(
        Run(name, proxy, repeat)
        for name, method in methods.items()
        for proxy in (proxies if method.scores else [""])
        for repeat in range(config.repeats)
    )
    return Plan(config, benchmark, _study(config, scored) if scored else None, runs)


def _scored(methods: Mapping[str, Method], proxies: Sequence[str]) -> list[str]:
    """Return the proxies whose scores some methods ask for."""
    scoring = [method for method in methods.values() if method.scores]
    return list(dict.fromkeys(name for method in scoring for proxy in proxies for name in (proxy, *method.also(proxy))))


def space_and_task(config: SearchConfig) -> tuple[Space, Task]:
    """Return the space, and what its networks are for."""
    folder = data_folder(config.data)
    return SPACES[config.space](folder), DATASETS[config.dataset](folder).task


def _study(config: SearchConfig, proxies: Sequence[str]) -> Study:
    """Resolve what networks are scored with."""
    return resolve(
        StudyConfig(
            space=config.space,
            dataset=config.dataset,
            accuracy=config.test,
            proxies=list(proxies),
            sample=1,
            batch_sizes=[config.batch_size] if config.batch_size else [],
            seeds=[config.score_seed],
            out=config.results,
            data=config.data,
            include=config.include,
            tracker="none",
            workers=config.workers,
            engine=config.engine,
            limit_s=config.limit_s,
            tries=config.tries,
        ),
        ranked=False,
    )


def recipe(plan: Plan, found: Sequence[Outcome]) -> dict[str, Any]:
    """Return what determines the result of a search, and the result."""
    config = dataclasses.asdict(plan.config)
    for free in ("results", "out", "data", "workers", "engine", "tracker", "limit_s", "tries"):
        config.pop(free)
    benchmark = plan.benchmark
    return {
        "config": config,
        "validation": benchmark and {benchmark.validation.name: benchmark.validation.label},
        "test": benchmark and {benchmark.test.name: benchmark.test.label},
        "optimum": benchmark and benchmark.optimum,
        "seconds": "of training, by the table, without the time of scores"
        if benchmark and benchmark.seconds is not None
        else "none: the files of the space do not say how long these trainings took",
        "scores": plan.study
        and {
            name: {"version": plan.study.recipe.versions[name], "batch_size": work.batch_size, "seed": work.seed}
            for work in plan.study.work
            for name in work.proxies
        },
        "environment": environment(),
        "outcomes": [null_if_not_finite(_flat(each)) for each in found],
    }


def _flat(each: Outcome) -> dict[str, Any]:
    record = dataclasses.asdict(each)
    record["tests"] = each.tests.tolist()
    return record


def _guide(benchmark: Benchmark, dataset: str) -> str:
    """Say which accuracy guides and which is reported."""
    if benchmark.validation.name == benchmark.test.name:
        return f"{benchmark.test.name} guides too: {benchmark.space.name} has no validation accuracy for {dataset}"
    return f"{benchmark.validation.name} guides, {benchmark.test.name} is reported"


def _write(out: Path, files: Mapping[str, str]) -> str:
    """Write files to a folder, and say where they are."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(out / name, text.encode())
    except OSError as error:
        raise ResultsError(f"out: cannot write to {out} ({error.strerror}): choose another folder") from None
    return f"{', '.join(files)}: {out}"


def _track(plan: Plan, found: Sequence[Outcome]) -> str:
    """Mirror the outcomes in Weights & Biases; return where."""
    on = plan.config.tracker != "none"
    asked, out = dataclasses.asdict(plan.config), Path(plan.config.out)
    with Session(out, "search", asked, name=out.name, id=digest(asked), on=on) as session:
        if session.run is not None:
            flat = [
                {name: value for name, value in _flat(each).items() if isinstance(value, str | float)}
                | {f"test_{part}": value for part, value in dataclasses.asdict(each.test).items()}
                for each in found
            ]
            session.run.log({"outcomes": as_wandb(flat)})
    return session.note
