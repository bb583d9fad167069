"""Weights & Biases as a mirror of a run: its configuration, its table, a scatter plot per proxy, and its scores.

What is sent to W&B is a copy; the record is the Parquet store.
"""

from __future__ import annotations

import dataclasses
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
        tags: What W&B can filter runs by.
        on: Whether the user wants a run.

    Attributes:
        note: One line for the user, empty before the run starts: where the run is, the command that uploads it, or
            why there is none.
    """

    def __init__(
        self, folder: Path, job_type: str, config: Mapping[str, Any], *, tags: Sequence[str] = (), on: bool = True
    ) -> None:
        self.note = ""
        self._on = on
        self._run: Any = None
        self._folder = folder.absolute()
        self._job_type, self._config, self._tags = job_type, dict(config), tags

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
        self._run = wandb.init(
            project="zcbench",
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
    with Session(study.out, "study", config, tags=[study.space.name, study.images.name[-64:]]) as session:
        if session.run is not None:
            try:
                _log(session.run, study, rows, rankings)
            except Exception as error:
                session.note = _failure(error)
    return session.note


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
        name = f"{ranking.proxy}/batch{ranking.batch_size}"
        run.summary[f"{name}/rho"] = ranking.correlation.rho
        run.summary[f"{name}/tau"] = ranking.correlation.tau
    # W&B allows no other characters; a data module is named MODULE:CLASS.
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"scores-{study.space.name}-{study.images.name}")
    artifact = wandb.Artifact(name, type="scores")
    with artifact.new_file("scores.parquet", mode="wb") as stream:
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), stream, compression="zstd")
    run.log_artifact(artifact)
