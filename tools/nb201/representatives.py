"""What it does to correlations that all networks of one function get the score of one of them.

    python -m zcbench.tools.nb201.representatives docs/board/scores.parquet > table.md

The setting `representatives` scores one network of every class. Here the scores are there already: those of a class go
over from its first scored network, one without an unreachable operation if there is any, as the setting prefers it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...bench.stats.coefficients import kendall
from ...errors import ZcbenchError
from ...spaces.nb201.network import cells, has_unreachable
from ...spaces.nb201.space import NasBench201


def shared(indices: Sequence[int], scores: Sequence[float], space: NasBench201) -> NDArray[np.float64]:
    """Return the scores `(n,)` of networks when each class has that of its first network.

    Args:
        indices: Indices of the networks.
        scores: Their scores.
        space: The space.

    >>> shared([0, 1], [1.0, 2.0], NasBench201(None)).tolist()  # two functions
    [1.0, 2.0]
    """
    order = sorted(range(len(indices)), key=lambda at: (has_unreachable(cells()[indices[at]]), indices[at]))
    first: dict[int, float] = {}
    for at in order:
        first.setdefault(space.representative(indices[at]), scores[at])
    return np.array([first[space.representative(index)] for index in indices])


def effects(rows: pd.DataFrame, space: NasBench201) -> Iterator[tuple[str, int, int, float, float]]:
    """Yield every proxy with its networks, their classes, and its Kendall's tau without and with shared scores.

    A network counts if it has a finite score.
    """
    truth = space.truth("cifar10").values
    for name, own in rows.groupby("proxy"):
        known = own[np.isfinite(own["value"])]
        indices = [space.index(architecture) for architecture in known["architecture"]]
        scores, accuracies = known["value"].to_numpy(), truth[indices]
        classes = len(set(map(space.representative, indices)))
        of_class = shared(indices, scores.tolist(), space)
        yield str(name), len(indices), classes, kendall(scores, accuracies), kendall(of_class, accuracies)


def page(scores: pd.DataFrame) -> str:
    """Return the table in Markdown, the largest change first."""
    space = NasBench201(None)
    rows = scores[(scores["space"] == space.name) & (scores["dataset"] == "cifar10") & (scores["seed"] == 0)]
    found = sorted(effects(rows, space), key=lambda effect: -abs(effect[4] - effect[3]))
    lines = ["| proxy | networks | classes | τ | τ with `representatives` | change |", "| --- |" + " --: |" * 5]
    for name, networks, classes, own, of_class in found:
        lines.append(f"| `{name}` | {networks} | {classes} | {own:.3f} | {of_class:.3f} | {of_class - own:+.3f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("expected scores.parquet of a leaderboard")
    try:
        sys.stdout.write(page(pd.read_parquet(sys.argv[1])))
    except (ZcbenchError, OSError) as error:
        sys.exit(str(error))
