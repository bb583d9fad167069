"""Correlations that others have published, to stand beside ours."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """One published pair of correlations.

    Attributes:
        space: The benchmark space.
        task: What its networks were trained for.
        proxy: Our name of what was measured.
        rho: Spearman's, signed; None where it was not published.
        tau: Kendall's.
        networks: How many were ranked.
        source: Where the figures are from.
    """

    space: str
    task: str
    proxy: str
    rho: float | None
    tau: float | None
    networks: int
    source: str


@functools.cache
def published() -> dict[tuple[str, str, str], Published]:
    """Return the figures at hand by space, task and proxy."""
    records = json.loads(files(__package__).joinpath("published.json").read_text("utf-8"))
    return {(r["space"], r["task"], r["proxy"]): Published(**r) for r in records}
