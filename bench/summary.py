"""From scores to one line per proxy: how well it ranks, on how many networks, at what cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from . import stats
from .protocol import PROTOCOL
from .store import KEY
from .study import Study


@dataclass(frozen=True)
class Ranking:
    """How well one proxy ranks, and all that makes the number comparable.

    Attributes:
        coverage: Share of (network, seed) pairs with a finite score; the others are in no correlation.
        failures: How many scores have each other status.
        ms: Median milliseconds per network, alone: shared passes counted in full.
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
    correlation: stats.Correlation

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV and JSON."""
        record = asdict(self)
        record["seeds"] = " ".join(map(str, self.seeds))
        record["failures"] = " ".join(f"{status}:{count}" for status, count in self.failures.items())
        correlation: dict[str, Any] = record.pop("correlation")
        return record | correlation


def select(study: Study) -> pd.DataFrame:
    """Return the rows of the store that belong to a study, and no others."""
    rows = study.store.read()
    keys = pd.DataFrame(sorted(study.keys()), columns=list(KEY))
    return keys.merge(rows, how="left", on=list(KEY), validate="one_to_one")


def summarise(study: Study, rows: pd.DataFrame) -> list[Ranking]:
    """Correlate every proxy with the study's accuracies; the best Spearman first."""
    truth = study.truth.values[list(study.indices)]
    known = np.isfinite(truth)
    architectures = [study.space.architecture(index) for index in study.indices]
    weights = stats.resamples(len(architectures), study.config.resamples)
    rankings = []
    for key, group in rows.groupby(["proxy", "batch_size"], sort=False):
        proxy, size = cast("tuple[str, int]", key)
        scores = group.pivot(index="architecture", columns="seed", values="value").reindex(architectures)
        status = group["status"].value_counts()
        values = scores.to_numpy()
        higher = next(p for p in study.proxies if p.name == proxy).direction == "higher"
        rankings.append(
            Ranking(
                space=study.space.name,
                dataset=study.images.name,
                accuracy=study.truth.name,
                protocol=PROTOCOL,
                device=study.device,
                proxy=proxy,
                version=int(group["version"].iloc[0]),
                batch_size=int(size),
                seeds=tuple(map(int, scores.columns)),
                networks=len(architectures),
                coverage=float(np.isfinite(values).mean()),
                failures={str(name): int(count) for name, count in status.items() if name != "ok"},
                ms=float(1000 * group["wall_s"].median()),
                correlation=stats.correlate(values[known], truth[known], weights[:, known], higher_is_better=higher),
            )
        )
    return sorted(rankings, key=lambda r: (-np.nan_to_num(r.correlation.rho, nan=-2), r.proxy, r.batch_size))
