"""Weights & Biases as a mirror: of a study its tables, its charts and its scores; of a leaderboard what it is made of.

What is sent to W&B is a copy; the record is the Parquet store.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ....environment import environment
from ....errors import one_line
from ...results.ablation import per_seed
from ...results.board import read_record, records
from ...results.panel import of_recipe
from ...results.ranking import Ranking, select
from ...results.standing import Standing
from ...scoring.store import Store
from ...study.recipe import Recipe
from ...study.resolve import Study
from .. import figures


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
        # An argument stands over what the user, or the agent of a sweep, has set, so theirs are passed on. wandb itself
        # reads these variables once a process.
        ours = {
            "project": os.environ.get("WANDB_PROJECT") or "zcbench",
            "entity": os.environ.get("WANDB_ENTITY", ""),
            "name": os.environ.get("WANDB_NAME") or self._name,
            "group": os.environ.get("WANDB_RUN_GROUP") or self._group,
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
            else f"W&B offline; to upload: wandb sync {self._run.dir.removesuffix('/files')}"
        )

    def use(self, artifacts: Iterable[Any]) -> None:
        """Say what the run was made from. W&B has no lineage offline, so the digests are settings of the run there."""
        try:
            for artifact in artifacts:
                if self.run.offline:
                    self.run.config.update({f"used/{artifact.name}": artifact.digest}, allow_val_change=True)
                else:
                    self.run.use_artifact(artifact)
        except Exception as error:
            self.note = _failure(error)

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
    name, group, identity = named(study)
    tags = [study.space.name, study.images.name[-64:]]
    with Session(study.out, "study", config, name=name, group=group, id=identity, tags=tags) as session:
        if session.run is not None:
            try:
                _log(session.run, study, rows, rankings)
            except Exception as error:
                session.note = _failure(error)
    return session.note


def named(study: Study) -> tuple[str, str, str]:
    """Return the name, the group and the identity of the mirror of a study."""
    name = study.config.name or f"{study.space.name} on {study.images.name}"[:96]
    return name, f"{name} {digest(_asked(study))}", digest(study.recipe.document())


def numbers(ranking: Ranking) -> dict[str, float]:
    """Return what is known of a ranking by name: coefficients, ends of intervals, coverage, cost; without NaN."""
    found = ranking.correlation
    said = {
        **{name: getattr(found, name) for name in ("rho", "rho_low", "rho_high", "tau", "tau_low", "tau_high")},
        "coverage": ranking.coverage,
        "ms": ranking.ms,
    }
    prefix = f"{ranking.proxy}/batch{ranking.batch_size}"
    return {f"{prefix}/{name}": value for name, value in said.items() if not math.isnan(value)}


def _asked(study: Study) -> dict[str, Any]:
    """Return what runs of one group have in common: all settings that a sweep over seeds or batch sizes leaves alone.

    Where and how fast a study runs changes no score.
    """
    swept = {"seeds", "batch_sizes", "sample_seed"}
    machine = {"out", "data", "tracker", "workers", "engine", "gpus", "limit_s", "memory_mib", "tries"}
    config = dataclasses.asdict(study.config)
    return {name: value for name, value in config.items() if name not in swept | machine}


def digest(document: Mapping[str, Any]) -> str:
    """Return the identity of what plain values describe."""
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
    if any(len(ranking.seeds) > 1 for ranking in rankings):
        found = [vars(seed) for measured in of_recipe(study.recipe, rows).measured for seed in per_seed(measured)]
        logged["seeds"] = as_table(found)
    logged |= _bars(rankings)
    run.log(logged)
    for ranking in rankings:
        for name, value in numbers(ranking).items():
            run.summary[name] = value
    run.log_artifact(scores_artifact(study.recipe, rows))


def _bars(rankings: Sequence[Ranking]) -> dict[str, Any]:
    """Return for every batch size the taus as bars that can be pointed at, and as a drawing with the intervals."""
    import wandb

    charts: dict[str, Any] = {}
    for size in dict.fromkeys(ranking.batch_size for ranking in rankings):
        own = [ranking for ranking in rankings if ranking.batch_size == size]
        title = f"Kendall's tau, batch {size}"
        bars = [{"proxy": r.proxy, "tau": r.correlation.tau} for r in own]
        charts[f"tau/batch{size}"] = wandb.plot.bar(as_table(bars), "proxy", "tau", title=title)
        if figures.available():
            found = [ranking.correlation for ranking in own]
            drawn = figures.intervals(
                [ranking.proxy for ranking in own],
                [each.tau for each in found],
                [each.tau_low for each in found],
                [each.tau_high for each in found],
                title,
            )
            charts[f"tau with intervals/batch{size}"] = wandb.Html(drawn)
    return charts


def scores_artifact(recipe: Recipe, rows: pd.DataFrame) -> Any:
    """Return the scores of a recipe as an artifact; equal scores have equal digests, so they are one version."""
    import wandb

    # W&B allows no other characters; a data module is named MODULE:CLASS.
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"scores-{recipe.space}-{recipe.dataset}")
    artifact = wandb.Artifact(name, type="scores")
    with artifact.new_file("scores.parquet", mode="wb") as stream:
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), stream, compression="zstd")
    return artifact


def scores_of(results: Path) -> Iterator[Any]:
    """Yield the artifact of every run of a results folder; a leaderboard has no runs, so it has none."""
    for path in records(results):
        recipe = read_record(path).recipe
        yield scores_artifact(recipe, select(Store(results), recipe))


def track_leaderboard(results: Path, out: Path, standings: Sequence[Standing]) -> str:
    """Log the rankings of a leaderboard, its files and the scores that it is made from; return a line for the user."""
    import wandb

    boards = [standing.board.identity() for standing in standings]
    flat = [{"board": s.board.name} | ranking.flat() for s in standings for ranking in s.rankings]
    with Session(
        results, "leaderboard", {"boards": boards}, name=f"leaderboard of {results.name}", id=digest({"boards": boards})
    ) as session:
        try:
            if session.run is not None:
                session.use(scores_of(results))
                session.run.log({"rankings": as_table(flat)})
                artifact = wandb.Artifact("leaderboard", type="leaderboard")
                for name in ("index.html", "leaderboard.csv", "overview.csv"):
                    artifact.add_file(str(out / name), name)
                session.run.log_artifact(artifact)
        except Exception as error:
            session.note = _failure(error)
    return session.note
