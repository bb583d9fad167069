"""Correlations that others have published, to stand beside ours."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib.resources import files

from ..results.ranking import Ranking


@dataclass(frozen=True)
class Published:
    """The published coefficients of one proxy on one space and task.

    Attributes:
        task: Name of the task that its networks were trained for.
        proxy: Our name of the proxy.
        rho: Spearman's rho, signed; None where it was not published.
        tau: Kendall's tau; None where it was not published.
        networks: Number of networks that were ranked.
        source: Paper or data that the coefficients are from.
    """

    space: str
    task: str
    proxy: str
    rho: float | None
    tau: float | None
    networks: int
    source: str


def published(ranking: Ranking) -> Published | None:
    """Return what others have published for the space, the task and the proxy of a ranking."""
    return _published().get((ranking.space, ranking.accuracy.partition("/")[0], ranking.proxy))


def every() -> list[Published]:
    """Return all that is known of what others have published."""
    return list(_published().values())


@functools.cache
def _published() -> dict[tuple[str, str, str], Published]:
    records = json.loads(files(__package__).joinpath("published.json").read_text("utf-8"))
    return {(r["space"], r["task"], r["proxy"]): Published(**r) for r in records}
