"""The aggregate of AZ-NAS."""

from __future__ import annotations

from collections.abc import Mapping

from .aggregate import Vector, aggregate, log_ranks


@aggregate(
    "az_nas",
    of=["az_expressivity", "az_progressivity", "az_trainability", "macs"],
    paper="Lee & Ham, AZ-NAS, CVPR 2024",
)
def az_nas(scores: Mapping[str, Vector]) -> Vector:
    r"""Add up the logarithms of a network's ranks in expressivity, progressivity, trainability and MACs.

    $$\sum_k \log \frac{r_k}{m}$$

    Here $r_k$ is the rank among the m networks of the pool, 1 for the worst. Scores change with the pool.
    """
    return log_ranks(scores.values())
