from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from zcbench.bench.study.config import ALL, read_configs, studies
from zcbench.datasets import DATASETS
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.spaces import SPACES

EVERY = [name for name in studies() if not name.startswith("evolution/")]


def documents(name: str) -> list[dict[str, object]]:
    return [
        json.loads(config) if config.startswith("{") else yaml.safe_load(Path(config).read_text("utf-8"))
        for config in read_configs(studies()[name])
    ]


def test_the_leaderboards_are_there() -> None:
    assert {f"leaderboards/{name}" for name in ("quickstart", "nb201", "eznas", "top-10-percent", "spaces")} <= set(
        EVERY
    )


@pytest.mark.parametrize("name", EVERY)
def test_studies_name_what_there_is(name: str) -> None:
    for document in documents(name):
        space, images = SPACES[str(document["space"])](None), DATASETS[str(document["dataset"])](None)
        truths = space.truths[images.task.name]
        assert document.get("accuracy", "default") in {"default", *truths}
        proxies = [*PROXIES, *AGGREGATES] if document["proxies"] == ALL else document["proxies"]
        assert isinstance(proxies, list)
        assert set(proxies) <= {*PROXIES, *AGGREGATES}
        assert len(set(proxies)) == len(proxies) > 0
        few = document.get("sample_of", {})
        assert isinstance(few, dict)
        assert set(few) <= {*PROXIES}


@pytest.mark.parametrize("name", [name for name in EVERY if name.startswith("leaderboards/")])
def test_boards_have_names_of_their_own_with_a_version(name: str) -> None:
    names = [str(document["name"]) for document in documents(name) if document.get("name")]
    assert len(set(names)) == len(names)
    assert all(text.rpartition(" v")[2].isdecimal() for text in names)


def test_the_tables_of_eznas_have_their_proxies() -> None:
    # Akhauri et al., NeurIPS 2022, tables 1 to 4; AngleNAS of table 3 is no zero-cost proxy.
    one = {"eznas_a", "synflow", "jacob_cov", "macs", "params", "grad_norm", "snip", "grasp", "fisher"}
    three, two = {"eznas_a", "naswot", "macs", "params"}, {"eznas_a", "naswot"}
    four = {"eznas_a", "naswot", "grad_norm", "synflow", "macs", "params"}
    tables = {"nb201": one | three, "nats_sss": two, **dict.fromkeys([f"nds_{s}" for s in ("darts", "pnas")], four)}
    found = documents("leaderboards/eznas")
    assert len(found) == 3 + 3 + 5 + 5
    for document in found:
        assert document["batch_sizes"] == [16]
        proxies = document["proxies"]
        assert isinstance(proxies, list)
        assert tables.get(str(document["space"]), {"eznas_a"}) <= set(proxies)
