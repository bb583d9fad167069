"""Jobs: the networks of a study that the store lacks scores of."""

from __future__ import annotations

from dataclasses import dataclass

from ..study.resolve import Study
from ..study.work import Work
from .store import Store


@dataclass(frozen=True)
class Job:
    """One item of the data set that the trainer predicts on: a network and all the work that it is built for."""

    index: int
    architecture: str
    work: tuple[Work, ...]


def missing(study: Study, store: Store) -> list[Job]:
    """Return the jobs that a store lacks, the most expensive networks first, so that workers end together."""
    known = store.keys() if store.parts() else set()
    jobs = []
    for index in study.indices:
        architecture = study.space.architecture(index)
        rest = [
            Work(work.seed, work.batch_size, names)
            for work in study.work
            if (names := tuple(p for p in work.proxies if study.recipe.key(architecture, work, p) not in known))
        ]
        if rest:
            jobs.append(Job(index, architecture, tuple(rest)))
    task = study.images.task
    return sorted(jobs, key=lambda job: (-study.space.macs(job.architecture, task), job.index))
