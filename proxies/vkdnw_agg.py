"""The aggregate of VKDNW."""

from __future__ import annotations

from collections.abc import Mapping

from .aggregate import Vector, aggregate, log_ranks


@aggregate(
    "vkdnw_agg",
    of=["vkdnw", "jacob_cov", "az_expressivity", "az_trainability", "macs"],
    paper="Tybl & Neumann, VKDNW, 2025",
)
def vkdnw_agg(scores: Mapping[str, Vector]) -> Vector:
    r"""Add up the logarithms of a network's ranks in vkdnw, jacob_cov, expressivity, trainability and MACs.

    $$\sum_k \log \frac{r_k}{m}$$

    Here $r_k$ is the rank among the m networks of the pool, 1 for the worst. Scores change with the pool.
    """
    return log_ranks(scores.values())
