"""Scores of aggregates: worked out from the rows of their members, for the networks of one study."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ...proxies.aggregate import AGGREGATES, Aggregate, pool_id
from ..study.recipe import Recipe


def pooled(recipe: Recipe, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of every aggregate, seed and batch size of a recipe, in the columns of the store, and the pool.

    Without batch sizes of the recipe's own, every member counts at that of its protocol, and the row has the largest.
    Nothing of this is stored: another study has another pool.

    Args:
        recipe: What the rows are.
        rows: The scores of its proxies.
    """
    for card in (AGGREGATES[name] for name in recipe.aggregates):
        for seed in recipe.seeds:
            members = rows[rows["proxy"].isin(card.members) & (rows["seed"] == seed)]
            if recipe.batch_sizes:
                for _, group in members.groupby("batch_size"):
                    yield _scored(card, group)
            else:
                yield _scored(card, members)


def _scored(card: Aggregate, members: pd.DataFrame) -> pd.DataFrame:
    largest = members.iloc[int(members["batch_size"].to_numpy().argmax())]
    values = members.pivot(index="architecture", columns="proxy", values="value")
    seconds = members.groupby("architecture")["wall_s"].sum()
    scores = card.score({name: values[name].to_numpy() for name in card.members})
    architectures = values.index
    known = ~np.isnan(scores)
    return pd.DataFrame(
        {
            **{name: largest[name] for name in ("space", "dataset", "batch_hash", "batch_size", "seed", "protocol")},
            "device": largest["device"],
            "architecture": architectures,
            "proxy": card.name,
            "version": card.version,
            "value": scores,
            "status": np.where(known, "ok", "not_applicable"),
            "message": np.where(known, "", "a member has no score"),
            "wall_s": seconds.loc[architectures].to_numpy(),
            "peak_mib": members["peak_mib"].max(),
            "pool": pool_id(architectures[known]),
        }
    )
