"""The fronts that searches have found, beside the true front of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from ....atomic import write_atomically
from ....bench.report.numbers import interval, number
from ....datasets.tasks import Task
from ....errors import ResultsError
from ....spaces import Space
from ..asks import METHODS
from ..config import SearchConfig
from ..outcome import grouped, mean
from ..play import Run
from .limits import Limits, limits
from .mirror import mirrored
from .pareto import Vector, covered, front


@dataclass(frozen=True)
class Known:
    """The accuracies and sizes of all networks of a space that keep the limits, in the order of the index.

    Attributes:
        name: Name of the accuracy.
        places: Place of every network by its text.
    """

    name: str
    accuracies: Vector
    sizes: Vector
    places: dict[str, int]

    def share(self, networks: Sequence[str]) -> float:
        """Return the share of the true front's hypervolume that networks have, by their accuracies and sizes."""
        own = [self.places[network] for network in networks]
        return covered(self.accuracies[own], self.sizes[own], self.accuracies, self.sizes)


@dataclass(frozen=True)
class Front:
    """The front of a run: the networks that no other network of the run dominates by score and size.

    Attributes:
        share: Share of the hypervolume of the true front; NaN if the space has no accuracies.
    """

    run: Run
    networks: tuple[str, ...]
    scores: tuple[float, ...]
    sizes: tuple[float, ...]
    share: float


def front_of(run: Run, allowed: Limits, objective: str, known: Known | None) -> Front:
    """Return the front of a run, from the smallest network to the largest."""
    networks = [network for _, network in run.scored]
    scores = np.array(list(run.scored.values()), dtype=np.float64)
    sizes = np.array([allowed.size(network, objective) for network in networks], dtype=np.float64)
    places = front(scores, sizes)
    found = tuple(networks[place] for place in places)
    share = known.share(found) if known else float("nan")
    return Front(run, found, tuple(scores[places].tolist()), tuple(sizes[places].tolist()), share)


def known_of(space: Space, task: Task, config: SearchConfig, allowed: Limits) -> Known | None:
    """Return what is known of all networks; None if there are no accuracies, or sizes would have to be measured.

    Raises:
        DataFileError: The file of the accuracies is absent or faulty.
    """
    if task.name not in space.truths or config.objective not in space.limited_sizes(space.start, task):
        return None
    truth = space.truth(task.name, config.test)
    chosen = [
        i for i in range(space.size) if not allowed.broken(space.architecture(i)) and np.isfinite(truth.values[i])
    ]
    texts = [space.architecture(i) for i in chosen]
    sizes = np.array([allowed.size(text, config.objective) for text in texts], dtype=np.float64)
    return Known(truth.name, truth.values[chosen], sizes, {text: place for place, text in enumerate(texts)})


def report(runs: Sequence[Run], space: Space, task: Task, config: SearchConfig) -> tuple[list[Table], list[str]]:
    """Return a table of the fronts, and write them to `fronts.json`.

    Raises:
        DataFileError: The file of the accuracies is absent or faulty.
        ResultsError: The file cannot be written.
    """
    own = [run for run in runs if METHODS[run.method].finds == "front"]
    if not own:
        return [], []
    allowed = limits(config, space, task)
    known = known_of(space, task, config, allowed)
    groups = [
        (name, [front_of(run, allowed, config.objective, known) for run in group]) for name, group in grouped(own)
    ]
    path = Path(config.out) / "fronts.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        records = [
            {
                "search": name,
                "repeat": each.run.repeat,
                "scored": len(each.run.scored),
                "objective": config.objective,
                "share": each.share if known else None,
                "networks": each.networks,
                "scores": each.scores,
                "sizes": each.sizes,
            }
            for name, fronts in groups
            for each in fronts
        ]
        write_atomically(path, json.dumps(records, indent=1, allow_nan=False).encode())
    except OSError as error:
        raise ResultsError(f"out: cannot write to {path} ({error.strerror}): choose another folder") from None
    note = mirrored(config, "fronts", [_counted(record) for record in records])
    return [_as_table(groups, config, known)], [f"fronts: {path}", note]


def _counted(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the number of its networks in place of lists."""
    counts = {"networks": len(record["networks"])}
    return {key: counts.get(key, value) for key, value in record.items() if key not in {"scores", "sizes"}}


def _as_table(groups: Sequence[tuple[str, Sequence[Front]]], config: SearchConfig, known: Known | None) -> Table:
    caption = f"networks: on the front by score and {config.objective}, mean over {config.repeats} repeat(s)"
    if known:
        true = len(front(known.accuracies, known.sizes))
        caption += (
            f"; share: of the hypervolume of {known.name} against {config.objective} that these networks have, "
            f"[95 % over repeats]; the true front has {true} of {len(known.sizes):,} networks and a share of 1"
        )
    made = Table(caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    made.add_column("method", overflow="fold")
    for title in ("scored", "networks", "share [95 %]") if known else ("scored", "networks"):
        made.add_column(title, justify="right", no_wrap=True)
    for name, fronts in groups:
        shares = mean(np.array([each.share for each in fronts]))
        row = [
            f"{np.mean([len(each.run.scored) for each in fronts]):,.0f}",
            f"{np.mean([len(each.networks) for each in fronts]):,.1f}",
        ]
        made.add_row(
            name, *row, *([f"{number(shares.value, 4)} {interval(shares.low, shares.high, 4)}"] if known else [])
        )
    return made
