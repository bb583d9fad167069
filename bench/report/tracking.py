"""Weights & Biases as a mirror of a run: its configuration, its table, a scatter plot per proxy, and its scores.

What is sent to W&B is a copy; the record is the Parquet store.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...environment import environment
from ...errors import one_line
from ..results.ranking import Ranking
from ..study.resolve import Study


class Session:
    """One W&B run, offline unless the user is logged in or `WANDB_MODE` says otherwise.

    The run starts when `run` is first read, so that a user's error before that leaves no run behind.

    Args:
        folder: Folder that the run is written to.
        job_type: What W&B groups runs by.
        config: What the user asked for; the environment is added.
        name: Name of the run; W&B makes one up if it is empty.
        group: What W&B shows the run under, such as the runs of one configuration; none if it is empty.
        id: Identity of the run: a run that is there is updated. W&B makes one up if it is empty.
        tags: What W&B can filter runs by.
        on: Whether the user wants a run.

    Attributes:
        note: One line for the user, empty before the run starts: where the run is, the command that uploads it, or
            why there is none.
    """

    def __init__(
        self,
        folder: Path,
        job_type: str,
        config: Mapping[str, Any],
        *,
        name: str = "",
        group: str = "",
        id: str = "",
        tags: Sequence[str] = (),
        on: bool = True,
    ) -> None:
        self.note = ""
        self._on = on
        self._run: Any = None
        self._folder = folder.absolute()
        self._job_type, self._config, self._tags = job_type, dict(config), tags
        self._name, self._group, self._id = name, group, id

    def __enter__(self) -> Session:
        return self

    @property
    def run(self) -> Any:
        """The run as wandb returns it, None if the user or `WANDB_MODE` turns tracking off."""
        if self._on and not self.note:
            try:
                self._start()
            except Exception as error:  # no key, no server, no folder that it can write to
                self.note = _failure(error)
        return self._run

    def _start(self) -> None:
        import wandb  # takes 1.2 s, and is not needed without tracking

        now: Any = mode()
        if now not in {"online", "offline"}:
            self.note = f"not tracked: WANDB_MODE is {now}"
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        # An argument would stand over what the user, or the agent of a sweep, has set; wandb reads these variables.
        ours = {
            "project": "" if os.environ.get("WANDB_PROJECT") else "zcbench",
            "name": "" if os.environ.get("WANDB_NAME") else self._name,
            "group": "" if os.environ.get("WANDB_RUN_GROUP") else self._group,
        }
        if self._id and not os.environ.get("WANDB_RUN_ID"):
            ours |= {"id": self._id, "resume": "allow"}
        self._run = wandb.init(
            **{name: value for name, value in ours.items() if value},  # type: ignore[arg-type]
            dir=self._folder,
            mode=now,
            job_type=self._job_type,
            tags=self._tags,
            config={**self._config, "environment": environment()},
            settings=wandb.Settings(silent=True),
        )
        self.note = (
            f"tracked at {self._run.url}"
            if now == "online"
            else f"tracked offline; to upload: wandb sync {self._run.dir.removesuffix('/files')}"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run is not None:
            with suppress(Exception):  # what could not be sent lies in the folder of the run
                self._run.finish(exit_code=0 if error is None else 1)


def mode() -> str:
    """Return `WANDB_MODE`, or else whether somebody is logged in: `online` or `offline`. The network is not asked."""
    import wandb

    return os.environ.get("WANDB_MODE", "").lower() or (
        "online" if wandb.login(prompt=False, verify=False) else "offline"
    )


def _failure(error: Exception) -> str:
    """Say that there is no mirror: it is a copy, and its failure ends nothing."""
    return f"not tracked: {one_line(f'{type(error).__name__}: {error}')[:200]}; scores are kept, see --tracker none"


def as_table(records: Sequence[Mapping[str, Any]]) -> Any:
    """Return records with the same fields, one or more, as a table that W&B can log."""
    import wandb

    return wandb.Table(columns=list(records[0]), data=[list(record.values()) for record in records])


def track(study: Study, rows: pd.DataFrame, rankings: Sequence[Ranking]) -> str:
    """Log the scores and rankings of a study that was run, and return the `note` of the session."""
    config = {
        **dataclasses.asdict(study.config),
        "truth": study.recipe.truth,
        "batches": study.recipe.document()["batches"],
    }
    name = study.config.name or f"{study.space.name} on {study.images.name}"[:96]
    tags = [study.space.name, study.images.name[-64:]]
    group, identity = f"{name} {_digest(_asked(study))}", _digest(study.recipe.document())
    with Session(study.out, "study", config, name=name, group=group, id=identity, tags=tags) as session:
        if session.run is not None:
            try:
                _log(session.run, study, rows, rankings)
            except Exception as error:
                session.note = _failure(error)
    return session.note


def _asked(study: Study) -> dict[str, Any]:
    """Return what runs of one group have in common: all settings that a sweep over seeds or batch sizes leaves alone.

    Where and how fast a study runs changes no score.
    """
    swept = {"seeds", "batch_sizes", "sample_seed"}
    machine = {"out", "data", "tracker", "workers", "engine", "gpus", "limit_s", "memory_mib", "tries"}
    config = dataclasses.asdict(study.config)
    return {name: value for name, value in config.items() if name not in swept | machine}


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _log(run: Any, study: Study, rows: pd.DataFrame, rankings: Sequence[Ranking]) -> None:
    import wandb

    logged = {"correlations": as_table([ranking.flat() for ranking in rankings])}
    for (proxy, size), group in rows[rows["status"] == "ok"].groupby(["proxy", "batch_size"], sort=False):
        accuracies = [study.recipe.accuracies[architecture] for architecture in group["architecture"]]
        points = {"score": group["value"], "accuracy": accuracies, "architecture": group["architecture"]}
        title = f"{proxy}, batch {size}: score against {study.truth.name}"
        logged[f"scatter/{proxy}/batch{size}"] = wandb.plot.scatter(
            wandb.Table(dataframe=pd.DataFrame(points)), "score", "accuracy", title=title
        )
    run.log(logged)
    for ranking in rankings:
        found = ranking.correlation
        said = {
            **{name: getattr(found, name) for name in ("rho", "rho_low", "rho_high", "tau", "tau_low", "tau_high")},
            "coverage": ranking.coverage,
            "ms": ranking.ms,
        }
        for name, value in said.items():
            if not math.isnan(value):
                run.summary[f"{ranking.proxy}/batch{ranking.batch_size}/{name}"] = value
    # W&B allows no other characters; a data module is named MODULE:CLASS.
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"scores-{study.space.name}-{study.images.name}")
    artifact = wandb.Artifact(name, type="scores")
    with artifact.new_file("scores.parquet", mode="wb") as stream:
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), stream, compression="zstd")
    run.log_artifact(artifact)
