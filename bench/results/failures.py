"""What did not get a score in a run: one line per proxy."""

from __future__ import annotations

import pandas as pd

#: Statuses of scores that cannot be ranked.
WITHOUT_SCORE = ("error", "out_of_memory", "crashed", "timeout", "nan", "not_applicable")


def failures(rows: pd.DataFrame) -> list[str]:
    """Return a line for every proxy with scores that cannot be ranked: how many, of which kind, the first message.

    Args:
        rows: Rows of a store that belong to a study, with the columns `proxy`, `status` and `message`.
    """
    lines = []
    for proxy, group in rows.groupby("proxy", sort=False):
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
