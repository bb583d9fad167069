from __future__ import annotations

import pandas as pd
import pytest
from zcbench.bench.agreement import NASLIB, agreement


def test_ranks_are_compared_over_networks_in_common() -> None:
    networks = list("abcdef")
    rows = pd.DataFrame({"proxy": "snip", "architecture": networks, "value": [1.0, 2.0, 3.0, 4.0, float("nan"), 9.0]})
    stored = pd.DataFrame({f"cifar10_{name}": [float("nan")] * 6 for name in NASLIB.values()})
    stored["arch_str"] = ["a", "b", "c", "d", "e", "z"]
    stored["cifar10_snip"] = [10.0, 30.0, 20.0, -1e8, 5.0, 1.0]
    (line,) = agreement(rows, stored).to_dict("records")
    assert line == {"proxy": "snip", "NASLib": "snip", "networks": 3, "rho": pytest.approx(0.5)}
