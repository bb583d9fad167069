"""Jobs: the networks of a study whose scores are not all in the store."""

from __future__ import annotations

from dataclasses import dataclass

from ..study.resolve import Study
from ..study.work import Work
from .store import Store


@dataclass(frozen=True)
class Job:
    """One item of the data set that the trainer predicts on: a network and its work.

    Attributes:
        index: Index of the network in the space.
        architecture: Text of the network.
        work: Work that is not in the store.
    """

    index: int
    architecture: str
    work: tuple[Work, ...]


def missing(study: Study, store: Store) -> list[Job]:
    """Return the jobs of a study, the most expensive networks first, so that all workers end at the same time."""
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
