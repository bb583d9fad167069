"""What did not get a score in a run: one line per proxy."""

from __future__ import annotations

import pandas as pd

from ..scoring.parts import ATTEMPTS

#: Statuses of scores that cannot be ranked.
WITHOUT_SCORE = ("crashed", "timeout", "out_of_memory", "error", "nan", "not_applicable")


#: Networks that are named at most.
MOST = 10


def failures(rows: pd.DataFrame) -> list[str]:
    """Return a line for every network that failed as a whole, and for every proxy with other scores that failed.

    Args:
        rows: Rows of a store that belong to a study, with the columns `architecture`, `proxy`, `status` and `message`.
    """
    lost = _lost(rows)
    lines = [f"network {name}: {status}: {message}" for name, (status, message) in list(lost.items())[:MOST]]
    if len(lost) > MOST:
        lines.append(f"{len(lost) - MOST} more networks failed; zcbench results export names all")
    for proxy, group in rows[~rows["architecture"].isin(list(lost))].groupby("proxy", sort=False):
        kinds = group["status"].value_counts()
        counted = [f"{kinds[status]} {status}" for status in WITHOUT_SCORE if status in kinds.index]
        if not counted:
            continue
        worst = group[group["status"].isin(WITHOUT_SCORE)].sort_values(
            "status", key=lambda column: column.map(WITHOUT_SCORE.index), kind="stable"
        )
        message = next((m for m in worst["message"] if m), "the definition gives no number there")
        lines.append(f"proxy {proxy}: {', '.join(counted)} of {len(group)} scores: {message}")
    return lines


def _lost(rows: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return status and message of the networks whose every score failed for one reason, by name."""
    stored = rows[rows["pool"] == ""] if "pool" in rows else rows
    if stored["proxy"].nunique() < 2:
        return {}
    own = stored[["architecture", "status", "message"]].drop_duplicates()
    alone = own[~own.duplicated("architecture", keep=False) & own["status"].isin(ATTEMPTS)]
    return {str(row.architecture): (str(row.status), str(row.message)) for row in alone.itertuples()}
