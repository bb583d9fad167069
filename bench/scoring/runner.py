"""The run of a study: its networks are jobs for worker processes, and this process alone writes their scores."""

from __future__ import annotations

import dataclasses
import json
import math
import resource
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...atomic import write_atomically
from ...engine import ClusterWorkers, Ended, Limits, Workers, own_device
from ...environment import device_class, environment, torch_release
from ...errors import ConfigError
from ...progress import Progress
from ...proxies import PROXIES
from ...proxies.registry import Score, score_all
from ..study.recipe import Key, Work, without_nan
from ..study.resolve import Study
from .asked import asked, workers
from .leases import Leases
from .parts import LONGEST_TEXT, Row
from .sizes import sizes_of, trainings_of
from .store import Store
from .writer import Writer

#: Seconds between two looks at the networks that other runs have.
WAIT_S = 0.5


@dataclass(frozen=True)
class Job:
    """A network and its work.

    Attributes:
        index: Index of the network in the space.
        architecture: Network that is scored.
        work: Work that is not in the store.
        members: Networks that get the scores: the network itself, or all of its class in the study.
    """

    index: int
    architecture: str
    work: tuple[Work, ...]
    members: tuple[str, ...]


def missing(study: Study, store: Store) -> list[Job]:
    """Return the jobs of a study, in the order of its networks; a network that has failed often enough is none."""
    rest = store.missing(study.recipe, study.config.tries)
    members: dict[tuple[int, tuple[Work, ...]], list[str]] = {}
    for index in study.indices:
        name = study.space.architecture(index)
        if name in rest:
            scored = study.space.representative(index) if study.config.representatives else index
            members.setdefault((scored, rest[name]), []).append(name)
    return [Job(scored, study.space.architecture(scored), work, tuple(own)) for (scored, work), own in members.items()]


def run(study: Study) -> None:
    """Compute the scores that are not in the store, and record the run.

    Raises:
        ResultsError: The results folder cannot be written, or no worker can be started.
    """
    _check_texts(study)
    store = Store(study.out)
    started, clock = datetime.now(UTC), time.perf_counter()
    scored = 0
    lacking = store.missing(study.recipe, tries=sys.maxsize)
    if not lacking and not store.is_writable():
        sys.stderr.write(f"{study.out} is read-only: nothing was to be computed, and this run is not recorded\n")
        return
    store.create()
    sizes = sizes_of(study)
    if lacking:
        with Leases(study.out) as leases:
            jobs = missing(study, store)  # after the leases, because another run may have ended meanwhile
            macs = dict(zip(study.recipe.architectures, sizes["macs"], strict=True))
            # The most expensive networks come first, so that all workers end at the same time.
            jobs.sort(key=lambda job: (-np.nan_to_num(macs[job.members[0]]), job.index))
            scored = _score(study, store, leases, jobs, _costs(jobs, macs)) if jobs else 0
        lacking = store.missing(study.recipe, tries=sys.maxsize)
    record = {
        "started": started.isoformat(timespec="seconds"),
        "wall_s": round(time.perf_counter() - clock, 3),
        "scored": scored,
        "reused": len(study.indices) - scored,
        "complete": not lacking,
        "config": dataclasses.asdict(study.config),
        "recipe": study.recipe.document(),
        "sizes": {name: without_nan(values) for name, values in (sizes | trainings_of(study)).items()},
        "environment": environment(),
    }
    name = f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}.json"
    write_atomically(store.folder / "runs" / name, json.dumps(record, indent=1, allow_nan=False).encode())


def _check_texts(study: Study) -> None:
    """Refuse networks whose texts no part may hold, before they are scored.

    Raises:
        ConfigError: A text is too long, or cannot be written.
    """
    for name in (study.space.name, study.images.name, *study.recipe.architectures):
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"space: expected texts that can be written, got {name[:60]!r} ({error.reason})"
            ) from None
        if size > LONGEST_TEXT:
            raise ConfigError(
                f"space: expected texts of networks of at most {LONGEST_TEXT:,} bytes, got one of {size:,}: {name[:60]}"
            )


def _costs(jobs: list[Job], macs: Mapping[str, float]) -> list[float]:
    """Return how much jobs cost in comparison with each other: a part is the same for all, as each has its layers."""
    own = [float(np.nan_to_num(macs[job.members[0]])) for job in jobs]
    alike = sum(own) / len(own) / 5
    return [cost + alike for cost in own]


def _score(study: Study, store: Store, leases: Leases, jobs: list[Job], costs: list[float]) -> int:
    """Write the rows of all jobs as they end, and wait for those of other runs; return the number that ended here."""
    count = min(study.config.workers, len(jobs))
    limits = Limits(seconds=study.config.limit_s, mebibytes=study.config.memory_mib)
    title = f"scoring {len(jobs)} networks on {count} worker(s)"
    ended_here = 0
    with (
        Progress(title, len(jobs), costs=costs) as progress,
        store.writer() as writer,
        workers(study, count, limits) as engine,
    ):
        for job, _ in scored(study, jobs, leases, writer, engine, progress):
            ended_here += len(job.members)
    return ended_here


def scored(
    study: Study,
    jobs: list[Job],
    leases: Leases,
    writer: Writer,
    engine: Workers | ClusterWorkers,
    progress: Progress,
) -> Iterator[tuple[Job, list[Row]]]:
    """Yield jobs with their rows as they end, when the rows are written; wait for jobs that other runs do.

    A job that another run has done is not yielded: its rows are in the store.
    """
    while jobs:
        elsewhere: list[Job] = []
        for ended in engine.run(_rows, _mine(study, leases, jobs, elsewhere)):
            rows = _without_score(study, ended) if ended.value is None else ended.value
            writer.add(rows)
            leases.finish(*_lease(study, ended.job))
            yield ended.job, rows
            progress.advance(1)
        progress.update(progress.total - len(elsewhere))
        if len(elsewhere) == len(jobs):
            time.sleep(WAIT_S)
        jobs = elsewhere


def _mine(study: Study, leases: Leases, jobs: list[Job], elsewhere: list[Job]) -> Iterator[Job]:
    """Yield the jobs that no other run has; add those that another run does now to `elsewhere`."""
    for job in jobs:
        state = leases.take(*_lease(study, job))
        if state == "mine":
            yield job
        elif state == "taken":
            elsewhere.append(job)


def _lease(study: Study, job: Job) -> tuple[str, list[Key]]:
    recipe = study.recipe
    keys = [recipe.key(each, work, name) for each in job.members for work in job.work for name in work.proxies]
    return f"{recipe.space} {recipe.dataset} {job.architecture}", keys


def _check_machine(study: Study) -> None:
    """Refuse a machine whose scores have other digits than the keys of the study say.

    Raises:
        ConfigError: It has another device, or another release of torch.
    """
    asked_for, here = (study.recipe.device, study.recipe.torch), (study.device, torch_release())
    if here != asked_for and (device_class(here[0]), here[1]) != asked_for:
        raise ConfigError(f"machine: expected one with {' and torch '.join(asked_for)}, got {' and torch '.join(here)}")


def _rows(job: Job) -> list[Row]:
    """Score one network, in a worker process."""
    study = asked()
    _check_machine(study)
    recipe = study.written
    device, precision = own_device(study.on_gpu), getattr(torch, study.config.precision)
    rows: list[Row] = []
    for seed in dict.fromkeys(work.seed for work in job.work):
        net = study.space.build(job.architecture, study.images.task, seed).to(device, precision)
        known: dict[str, Score] = {}
        for work in (work for work in job.work if work.seed == seed):
            batch = study.batches[work.batch_size, seed]
            proxies = [PROXIES[name] for name in work.proxies if name not in known]
            y = None if batch.y is None else batch.y.to(device)
            x = batch.x.to(device, precision, memory_format=study.space.memory_format)
            scores = {s.proxy: s for s in score_all(net, x, y, proxies, seed=seed)}
            # A score that is the same for every batch is computed once.
            known |= {name: score for name, score in scores.items() if PROXIES[name].batch_free}
            for name in work.proxies:
                score = scores.get(name) or known[name]
                found = score.value, score.status, score.message, score.wall_s, _peak_mib(device)
                rows += [Row(*(recipe.key(each, work, name) + found)) for each in job.members]
    return rows


def _without_score(study: Study, ended: Ended[Job, Any]) -> list[Row]:
    """Return the rows of a network that ended without scores: one attempt for every score that it lacks."""
    attempt = (math.nan, ended.status, ended.message, math.nan, math.nan)
    job = ended.job
    recipe = study.written
    keys = (recipe.key(each, work, name) for each in job.members for work in job.work for name in work.proxies)
    return [Row(*key + attempt) for key in keys]


def _peak_mib(device: torch.device) -> float:
    """Return the peak memory of this worker so far: on the GPU, or resident in the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:
        # Linux has this file. The peak of getrusage includes the process that started this one.
        status = Path("/proc/self/status").read_text("utf-8")
        return int(status.split("VmHWM:")[1].split()[0]) / 2**10
    except (OSError, LookupError):
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
