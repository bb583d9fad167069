"""The sizes of the networks of a study. They order its jobs, and a board explains correlations by them."""

from __future__ import annotations

import math

from ...engine import Limits, Workers
from ...errors import DataFileError
from ...progress import Progress
from ...spaces import Space
from ..study.resolve import Study
from .asked import Asked, asked, prepare

#: Seconds after which the sizes of a network are given up, if no network may take less.
LIMIT_S = 10.0


def sizes_of(study: Study) -> dict[str, list[float]]:
    """Return `params`, `macs` and the traits that the space knows of every network, by name.

    Spaces without a closed form count them on the built network. Worker processes do that, because what such a network
    does to its process is not known; a network that fails has NaN.

    Raises:
        ResultsError: No worker can be started.
    """
    names = study.recipe.architectures
    known = {name: (math.nan, math.nan) for name in names}
    if type(study.space).sizes_of is Space.sizes_of:
        limits = Limits(min(LIMIT_S, study.config.limit_s or LIMIT_S), study.config.memory_mib)
        count = min(study.config.workers, len(names))
        with (
            Progress(f"counting the sizes of {len(names)} networks", len(names)) as progress,
            Workers(count, prepare, Asked(study), limits=limits) as workers,
        ):
            for ended in workers.run(_sizes, names):
                known[ended.job] = ended.value or known[ended.job]
                progress.advance(1)
    else:
        known |= {name: _counted(study, name) for name in names}
    own = [study.space.traits(name) for name in names]
    return {
        "params": [known[name][0] for name in names],
        "macs": [known[name][1] for name in names],
        **{trait: [of[trait] for of in own] for trait in own[0]},
    }


def trainings_of(study: Study) -> dict[str, list[float]]:
    """Return the accuracies of the single trainings behind the accuracy of the study; NaN where a network has fewer.

    Nothing if the space has no such files, or they are not in the data folder.
    """
    task, which = study.recipe.truth.split("/", 1)
    found = {}
    for number, name in enumerate(study.space.trainings.get(task, {}).get(which, ()), start=1):
        try:
            values = study.space.truth(task, name).values
        except DataFileError:
            return {}
        found[f"training {number}"] = [float(values[index]) for index in study.indices]
    return found


def _sizes(architecture: str) -> tuple[float, float]:
    return _counted(asked(), architecture)


def _counted(study: Study, architecture: str) -> tuple[float, float]:
    found = study.space.sizes_of(architecture, study.images.task)
    return found.params, found.macs
