from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from zcbench.errors import ResultsError
from zcbench.proxies import PROXIES
from zcbench.tools.agreement import NASLIB, agreement


def test_every_name_is_a_proxy_of_ours() -> None:
    assert set(NASLIB) <= set(PROXIES)


def test_ranks_are_compared_over_networks_in_common() -> None:
    networks = list("abcdef")
    rows = pd.DataFrame({"proxy": "snip", "architecture": networks, "value": [1.0, 2.0, 3.0, 4.0, float("nan"), 9.0]})
    stored = pd.DataFrame({f"cifar10_{name}": [float("nan")] * 6 for name in NASLIB.values()})
    stored["arch_str"] = ["a", "b", "c", "d", "e", "z"]
    stored["cifar10_snip"] = [10.0, 30.0, 20.0, -1e8, 5.0, 1.0]
    (line,) = agreement(rows, stored).to_dict("records")
    assert line == {"proxy": "snip", "NASLib": "snip", "networks": 3, "rho": pytest.approx(0.5)}


def test_every_proxy_is_compared_with_its_own_column() -> None:
    networks = list("abcde")
    random = np.random.RandomState(0)
    theirs = {name: random.permutation(5).astype(float) for name in dict.fromkeys(NASLIB.values())}
    stored = pd.DataFrame({"arch_str": networks} | {f"cifar10_{name}": values for name, values in theirs.items()})
    rows = pd.concat(
        [pd.DataFrame({"proxy": p, "architecture": networks, "value": -(theirs[n] ** 3)}) for p, n in NASLIB.items()]
    )
    rows = pd.concat([rows, pd.DataFrame({"proxy": "meco", "architecture": networks, "value": 1.0})])
    found = agreement(rows.sample(frac=1, random_state=0), stored.iloc[::-1])
    assert dict(zip(found["proxy"], found["NASLib"], strict=True)) == NASLIB
    assert found["rho"].tolist() == pytest.approx([-1] * len(NASLIB))
    assert set(found["networks"]) == {5}


def test_infinite_scores_are_left_out_and_two_networks_say_nothing() -> None:
    networks = list("abcde")
    stored = pd.DataFrame({"arch_str": networks} | {f"cifar10_{name}": np.arange(5.0) for name in NASLIB.values()})
    zen = pd.DataFrame({"proxy": "zen", "architecture": networks, "value": [0.0, 1.0, 2.0, -np.inf, np.inf]})
    few = pd.DataFrame({"proxy": "snip", "architecture": networks[:2], "value": [0.0, 1.0]})
    (line,) = agreement(pd.concat([zen, few]), stored).to_dict("records")
    assert line == {"proxy": "zen", "NASLib": "zen", "networks": 3, "rho": pytest.approx(1)}


def test_several_scores_of_one_network_are_refused() -> None:
    rows = pd.DataFrame({"proxy": "snip", "architecture": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
    with pytest.raises(ResultsError, match="use one seed"):
        agreement(rows, pd.DataFrame())
