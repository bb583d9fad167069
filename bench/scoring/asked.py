"""The study of a worker process: what it is asked for, and where it runs."""

from __future__ import annotations

import pickle

from ...engine import ClusterWorkers, Limits, Workers
from ...plugins import load
from ..study.config import listed
from ..study.resolve import Study


class Asked:
    """A study on its way to worker processes. One that is spawned reads the files to include before the study."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def __getstate__(self) -> tuple[list[str], bytes]:
        return listed(self.study.config.include), pickle.dumps(self.study)

    def __setstate__(self, state: tuple[list[str], bytes]) -> None:
        load(state[0])
        self.study = pickle.loads(state[1])  # noqa: S301 - the process that started this one has pickled it


_asked: list[Asked] = []


def prepare(given: Asked) -> None:
    """Keep the study for the jobs of this process."""
    _asked[:] = [given]


def asked() -> Study:
    """Return the study of this process."""
    return _asked[0].study


def workers(study: Study, count: int, limits: Limits) -> Workers | ClusterWorkers:
    """Return the workers that the engine of a study names, which know the study.

    Raises:
        ConfigError: The engine is not there.
    """
    engine = study.config.engine
    if engine == "local":
        return Workers(count, prepare, Asked(study), limits=limits)
    address = engine.removeprefix("ray").removeprefix("://")
    gpus = study.config.gpus if study.on_gpu else 0.0
    return ClusterWorkers(address, count, prepare, Asked(study), limits=limits, gpus=gpus)
