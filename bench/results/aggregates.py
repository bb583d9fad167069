"""The scores of aggregates: computed from the rows of their members, for the networks of one study."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ...proxies.aggregate import AGGREGATES, Aggregate, pool_id
from ..study.recipe import Recipe


def pooled(recipe: Recipe, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of every aggregate, seed and batch size of a recipe, in the columns of the store and `pool`.

    An aggregate ranks the networks that all its members score. If the recipe names no batch sizes, each member has the
    batch size of its protocol, and the rows of the aggregate have the largest of them. These rows are never stored,
    because another study has another pool.

    Args:
        recipe: Recipe of the scores.
        rows: Scores of the proxies of the recipe.
    """
    for card in (AGGREGATES[name] for name in recipe.aggregates):
        beyond = recipe.architectures[min(map(recipe.networks_of, card.members)) :]
        for seed in recipe.seeds:
            members = rows[rows["proxy"].isin(card.members) & (rows["seed"] == seed)]
            members = members[~members["architecture"].isin(beyond)]
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
    shared = ("space", "dataset", "batch_hash", "batch_size", "seed", "protocol", "device", "torch")
    return pd.DataFrame(
        {
            **{name: largest[name] for name in shared},
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
