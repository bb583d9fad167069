"""Weights & Biases as a mirror of a run: its configuration, its table, a scatter per proxy and the scores themselves.

The Parquet store is the record; what is sent here is a copy.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...environment import environment
from ..results.ranking import Ranking

if TYPE_CHECKING:
    from ..study.resolve import Study


def track(study: Study, rows: pd.DataFrame, rankings: Sequence[Ranking]) -> str:
    """Log one run to W&B, offline unless the user is logged in or `WANDB_MODE` says otherwise.

    Args:
        study: What was run.
        rows: Its scores.
        rankings: Its table.

    Returns:
        One line for the user: where the run is, or the command that uploads it.
    """
    import wandb  # 1.2 s to import, and not needed without tracking

    mode = os.environ.get("WANDB_MODE") or ("online" if wandb.login(prompt=False, verify=False) else "offline")
    folder = study.out.absolute()
    run = wandb.init(
        project="zcbench",
        dir=folder,
        mode=mode,  # type: ignore[arg-type]
        job_type="study",
        tags=[study.space.name, study.images.name],
        config={
            **dataclasses.asdict(study.config),
            "truth": study.recipe.truth,
            "batches": study.recipe.document()["batches"],
            "environment": environment(),
        },
        settings=wandb.Settings(silent=True),
    )
    try:
        run.log(_logged(study, rows, rankings))
        for ranking in rankings:
            name = f"{ranking.proxy}/batch{ranking.batch_size}"
            run.summary[f"{name}/rho"] = ranking.correlation.rho
            run.summary[f"{name}/tau"] = ranking.correlation.tau
        artifact = wandb.Artifact(f"scores-{study.space.name}-{study.images.name}", type="scores")
        with artifact.new_file("scores.parquet", mode="wb") as stream:
            pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), stream, compression="zstd")
        run.log_artifact(artifact)
    finally:
        run.finish()
    if mode == "online":
        return f"tracked at {run.url}"
    if mode == "offline":
        return f"tracked offline; to upload: wandb sync {run.dir.removesuffix('/files')}"
    return f"not tracked: WANDB_MODE is {mode}"


def _logged(study: Study, rows: pd.DataFrame, rankings: Sequence[Ranking]) -> dict[str, Any]:
    import wandb

    records = [ranking.flat() for ranking in rankings]
    table = wandb.Table(columns=list(records[0]))
    for record in records:
        table.add_data(*record.values())
    logged: dict[str, Any] = {"correlations": table}
    accuracy = study.recipe.accuracies
    for (proxy, size), group in rows[rows["status"] == "ok"].groupby(["proxy", "batch_size"], sort=False):
        data = wandb.Table(columns=["score", "accuracy", "architecture"])
        for score, architecture in zip(group["value"], group["architecture"], strict=True):
            data.add_data(score, accuracy[architecture], architecture)
        title = f"{proxy}, batch {size}: score against {study.truth.name}"
        logged[f"scatter/{proxy}/batch{size}"] = wandb.plot.scatter(data, "score", "accuracy", title=title)
    return logged
