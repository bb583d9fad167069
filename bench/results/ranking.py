"""From scores to one line per proxy: how well it ranks, on how many networks, at what cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from ..scoring.store import KEY, Store
from ..stats import coefficients as stats
from ..study.recipe import Recipe
from .pool import pooled


@dataclass(frozen=True)
class Ranking:
    """How well one proxy ranks, and all that makes the number comparable.

    Attributes:
        coverage: Share of (network, seed) pairs with a finite score; the others are in no correlation.
        failures: How many scores have each other status.
        ms: Median milliseconds per network, alone: shared passes counted in full.
        pool: Which networks an aggregate ranked; empty for proxies that score a network by itself.
        correlation: The coefficients.
    """

    space: str
    dataset: str
    accuracy: str
    protocol: str
    device: str
    proxy: str
    version: int
    batch_size: int
    seeds: tuple[int, ...]
    networks: int
    coverage: float
    failures: dict[str, int]
    ms: float
    pool: str
    correlation: stats.Correlation

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV and JSON."""
        record = asdict(self)
        record["seeds"] = " ".join(map(str, self.seeds))
        record["failures"] = " ".join(f"{status}:{count}" for status, count in self.failures.items())
        correlation: dict[str, Any] = record.pop("correlation")
        return record | correlation


def select(store: Store, recipe: Recipe) -> pd.DataFrame:
    """Return the rows of the store that belong to a recipe, and no others; rows of its aggregates are worked out."""
    return select_rows(store.read(), recipe)


def select_rows(rows: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Do the same with the rows of a store that is read already."""
    keys = pd.DataFrame(sorted(set(recipe.keys())), columns=list(KEY))
    rows = keys.merge(rows, how="left", on=list(KEY), validate="one_to_one")
    return pd.concat([rows.assign(pool=""), *pooled(recipe, rows)], ignore_index=True)


def summarise(recipe: Recipe, rows: pd.DataFrame) -> list[Ranking]:
    """Correlate every proxy with the recipe's accuracies; the best Spearman first."""
    truth, architectures = recipe.values, recipe.architectures
    known = np.isfinite(truth)
    weights = stats.resamples(len(architectures), recipe.resamples)
    rankings = []
    for key, group in rows.groupby(["proxy", "batch_size"], sort=False):
        proxy, size = cast("tuple[str, int]", key)
        scores = group.pivot(index="architecture", columns="seed", values="value").reindex(architectures)
        status = group["status"].value_counts()
        values = scores.to_numpy()
        rankings.append(
            Ranking(
                space=recipe.space,
                dataset=recipe.dataset,
                accuracy=recipe.truth,
                protocol=recipe.protocol,
                device=recipe.device,
                proxy=proxy,
                version=int(group["version"].iloc[0]),
                batch_size=int(size),
                seeds=tuple(map(int, scores.columns)),
                networks=len(architectures),
                coverage=float(np.isfinite(values).mean()),
                failures={str(name): int(count) for name, count in status.items() if name != "ok"},
                ms=float(1000 * group["wall_s"].median()),
                pool=", ".join(dict.fromkeys(group["pool"])),
                correlation=stats.correlate(
                    values[known], truth[known], weights[:, known], higher_is_better=proxy not in recipe.lower
                ),
            )
        )
    return sorted(rankings, key=lambda r: (-np.nan_to_num(r.correlation.rho, nan=-2), r.proxy, r.batch_size))
