"""What searches by scores alone have found: the best network of each, as a table and as a description."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from ....atomic import write_atomically
from ....datasets.tasks import Task
from ....errors import ConfigError, ResultsError
from ....spaces import Space
from ....spaces.description import Description
from ..asks import METHODS
from ..config import SearchConfig
from ..outcome import Mean, grouped, mean
from ..play import Run
from .limits import Limits, limits
from .mirror import mirrored


@dataclass(frozen=True)
class Best:
    """The best network of a run.

    Attributes:
        score: Its score; higher is better for every proxy.
        sizes: Its sizes by name.
    """

    run: Run
    network: str
    score: float
    sizes: dict[str, float]


def best_of(run: Run, allowed: Limits) -> Best:
    """Return the network with the highest score of a run, the first of equal ones.

    Raises:
        ConfigError: No network that keeps the limits has a score.
    """
    finite = {network: score for (_, network), score in run.scored.items() if np.isfinite(score)}
    if not finite:
        raise ConfigError(
            f"{run.method}: none of {len(run.scored)} networks that keep the limits has a score: expected wider limits "
            "or more evaluations"
        )
    network = max(finite, key=lambda name: finite[name])
    return Best(run, network, finite[network], dict(allowed.space.limited_sizes(network, allowed.task)))


def report(runs: Sequence[Run], space: Space, task: Task, config: SearchConfig) -> tuple[list[Table], list[str]]:
    """Return tables of what runs of methods that evaluate have found, and write their best networks.

    Raises:
        ConfigError: A run has found nothing.
        ResultsError: A file cannot be written.
    """
    allowed = limits(config, space, task)
    groups = [
        (name, [best_of(run, allowed) for run in own])
        for name, own in grouped(runs)
        if METHODS[own[0].method].finds == "best"
    ]
    if not groups:
        return [], []
    out, notes = Path(config.out), []
    texts = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    texts.add_column("method", no_wrap=True)
    texts.add_column("best network", overflow="fold")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, own in groups:
            first = max(own, key=lambda best: best.score)
            path = out / f"{re.sub('[^a-z0-9]+', '_', name)}.json"  # the module beside it can be imported
            _described(first, space, task, config).write(path)
            texts.add_row(name, first.network)
            notes.append(f"network: {path}; its function build: {path.with_suffix('.py')}")
        records = [_record(name, best) for name, own in groups for best in own]
        write_atomically(out / "found.json", json.dumps(records, indent=1, allow_nan=False).encode())
    except OSError as error:
        raise ResultsError(f"out: cannot write to {out} ({error.strerror}): choose another folder") from None
    return [_as_table(groups, config), texts], [*notes, mirrored(config, "found", records)]


def _record(name: str, best: Best) -> dict[str, Any]:
    return {
        "search": name,
        "repeat": best.run.repeat,
        "scored": len(best.run.scored),
        "network": best.network,
        "score": best.score,
        **best.sizes,
    }


def _described(best: Best, space: Space, task: Task, config: SearchConfig) -> Description:
    found = {
        "method": best.run.method,
        "proxy": best.run.proxy,
        "score": best.score,
        "scored_in": space.name,
        "seed": config.seed,
        "repeat": best.run.repeat,
        "evaluations": config.evaluations,
        "limits": {name: value for name, value in dataclasses.asdict(config).items() if name[:4] == "max_" and value},
        **best.sizes,
    }
    return Description(space.trained_in or space.name, best.network, task.name, found)


def _as_table(groups: Sequence[tuple[str, Sequence[Best]]], config: SearchConfig) -> Table:
    names = [name for name in groups[0][1][0].sizes if not name.startswith("budget")]
    caption = (
        f"{config.evaluations:,} evaluations, {config.repeats} repeat(s); scored: different networks, mean; score: the "
        f"highest, mean [95 % over repeats]; {', '.join(names)}: those of the best network"
    )
    made = Table(caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    made.add_column("method", overflow="fold")
    for title in ("scored", "score [95 %]", *names):
        made.add_column(title, justify="right", no_wrap=True)
    for name, own in groups:
        scores = mean(np.array([best.score for best in own]))
        first = max(own, key=lambda best: best.score)
        made.add_row(
            name,
            f"{np.mean([len(best.run.scored) for best in own]):,.0f}",
            f"{scores.value:.6g} {_interval(scores)}".strip(),
            *(f"{first.sizes[each]:,.0f}" for each in names),
        )
    return made


def _interval(scores: Mean) -> str:
    return "" if math.isnan(scores.low) else f"[{scores.low:.6g} {scores.high:.6g}]"
