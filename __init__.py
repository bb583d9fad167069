"""zcbench: how well do training-free proxies rank neural networks?

    score(net, x, y)               every proxy on one network, passes shared
    rank({"a": net_a, ...}, x, y)  networks side by side, and which comes first
    ZeroCost(...)                  a Lightning callback that logs proxies when a training begins
    register(...)                  a proxy of your own: a pure function of a `Probe`
    PROXIES, SPACES, DATASETS,     the registries
    TASKS

Heavy packages are imported when a name is first used, so that `import zcbench` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "score": ".proxies.score",
    "rank": ".proxies.rank",
    "ZeroCost": ".bench.report.callback",
    "register": ".proxies",
    "reads": ".proxies.registry",
    "Proxy": ".proxies",
    "PROXIES": ".proxies",
    "Probe": ".proxies.probe",
    "Score": ".proxies.registry",
    "SPACES": ".spaces",
    "DATASETS": ".datasets",
    "TASKS": ".datasets.tasks",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  (the keys are texts)

if TYPE_CHECKING:
    from .bench.report.callback import ZeroCost as ZeroCost
    from .datasets import DATASETS as DATASETS
    from .datasets.tasks import TASKS as TASKS
    from .proxies import PROXIES as PROXIES
    from .proxies import Proxy as Proxy
    from .proxies import register as register
    from .proxies.probe import Probe as Probe
    from .proxies.rank import rank as rank
    from .proxies.registry import Score as Score
    from .proxies.registry import reads as reads
    from .proxies.score import score as score
    from .spaces import SPACES as SPACES


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
