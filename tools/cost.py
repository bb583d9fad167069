"""The cost of every proxy when it shares no pass, measured and written with its recipe to `proxies/costs.json`.

    python -m zcbench.tools.cost

The measurement takes one NAS-Bench-201 network, 64 images and one thread. It is the median of three runs, or one run if
that takes over five seconds. Afterwards make the pages and the listing anew: `python -m zcbench.tools.cards`.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

import torch

from ..datasets import TASKS
from ..environment import environment
from ..progress import Progress
from ..proxies import AGGREGATES, PROXIES
from ..proxies.registry import COSTS, score_all
from ..spaces import SPACES

NETWORK, BATCH, ROUNDS, PATIENCE_S = 6111, 64, 3, 5.0


def measure() -> dict[str, Any]:
    """Return milliseconds by name and how they were measured; those of an aggregate are the sum of its members."""
    torch.set_num_threads(1)
    space = SPACES["nb201"](None)
    net = space.build(space.architecture(NETWORK), TASKS["cifar10"], 0)
    x = torch.randn(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    y = torch.arange(BATCH) % 10
    progress = Progress("measuring proxies", len(PROXIES))
    ms: dict[str, float] = {}
    for name, proxy in PROXIES.items():
        runs = [score_all(net, x, y, [proxy])[0].wall_s]
        while len(runs) < ROUNDS and runs[0] < PATIENCE_S:
            runs.append(score_all(net, x, y, [proxy])[0].wall_s)
        ms[name] = round(1000 * statistics.median(runs), 2)
        progress.advance(1)
    progress.close()
    ms |= {a.name: round(sum(ms[m] for m in a.members), 2) for a in AGGREGATES.values()}
    runs_of = f"median of {ROUNDS} runs, or one run over {PATIENCE_S:.0f} s"
    recipe = f"NAS-Bench-201 network {NETWORK}, {BATCH} images, one thread, {runs_of}"
    return {"recipe": recipe, "environment": environment(), "ms": dict(sorted(ms.items()))}


if __name__ == "__main__":
    COSTS.write_text(json.dumps(measure(), indent=1) + "\n")
