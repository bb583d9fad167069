"""The aggregate of TE-NAS: trainability and expressivity."""

from __future__ import annotations

from collections.abc import Mapping

from .aggregate import Vector, aggregate, ranks


@aggregate("te_nas", of=["ntk_condition", "linear_regions"], paper="Chen et al., TE-NAS, ICLR 2021")
def te_nas(scores: Mapping[str, Vector]) -> Vector:
    r"""Add up a network's ranks in ntk_condition (lowest is best) and in linear_regions.

    $$r(-\kappa) + r(R)$$

    Here $r$ is the rank among the networks of the pool, 1 for the worst. Scores change with the pool.
    """
    total: Vector = ranks(scores["ntk_condition"]) + ranks(scores["linear_regions"])
    return total
