from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from zcbench.bench.protocol import StudyConfig
from zcbench.bench.report.table import terminal
from zcbench.bench.runner import run
from zcbench.bench.study import Study, resolve
from zcbench.bench.summary import select, summarise
from zcbench.proxies import AGGREGATES
from zcbench.proxies.aggregate import pool_id


def study_of(out: Path, **changes: object) -> Study:
    config = StudyConfig(
        dataset="cifar10-samples",
        accuracy="analog-baseline",
        proxies=["vote"],
        sample=6,
        batch_sizes=[2],
        out=str(out),
        tracker="none",
    )
    return resolve(dataclasses.replace(config, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool") / "results"
    run(study_of(folder, seeds=[0, 1]))
    return folder


def test_an_aggregate_computes_its_members_and_ranks_them(out: Path) -> None:
    rows = select(study_of(out))
    assert set(rows["proxy"]) == {"vote", "synflow", "jacob_cov", "snip"}
    members = rows[rows["proxy"] != "vote"].pivot(index="architecture", columns="proxy", values="value")
    expected = AGGREGATES["vote"].score({name: members[name].to_numpy() for name in members})
    found = rows[rows["proxy"] == "vote"].set_index("architecture").loc[members.index]
    np.testing.assert_array_equal(found["value"], expected)
    assert set(found["pool"]) == {pool_id(members.index[~np.isnan(expected)])}
    assert set(rows.loc[rows["proxy"] != "vote", "pool"]) == {""}


def test_aggregates_are_never_stored(out: Path) -> None:
    assert "vote" not in set(study_of(out).store.read()["proxy"])
    assert study_of(out, seeds=[0, 1]).missing() == []


def test_another_sample_is_another_pool(out: Path) -> None:
    small, large = (select(study_of(out, sample=n)).query("proxy == 'vote'") for n in (4, 6))
    assert set(small["pool"]).isdisjoint(large["pool"])
    both = small.merge(large, on="architecture", suffixes=("_small", "_large"))
    assert not both["value_small"].equals(both["value_large"])


def test_every_seed_is_a_pool_of_its_own(out: Path) -> None:
    both = select(study_of(out, seeds=[0, 1])).query("proxy == 'vote'")
    for seed in (0, 1):
        alone = select(study_of(out, seeds=[seed])).query("proxy == 'vote'")
        pd.testing.assert_frame_equal(
            both[both["seed"] == seed].reset_index(drop=True), alone.reset_index(drop=True), check_exact=True
        )


def test_other_proxies_and_their_order_do_not_matter(out: Path) -> None:
    more = study_of(out, proxies=["params", "snip", "vote"])
    run(more)
    expected = select(study_of(out)).query("proxy == 'vote'").reset_index(drop=True)
    pd.testing.assert_frame_equal(
        select(more).query("proxy == 'vote'").reset_index(drop=True), expected, check_exact=True
    )


def test_the_table_says_which_pool(out: Path) -> None:
    study = study_of(out)
    rankings = summarise(study, select(study))
    (vote,) = [r for r in rankings if r.proxy == "vote"]
    assert vote.pool
    assert vote.networks == 6
    assert vote.flat()["pool"] == vote.pool
    assert vote.ms > 0
    caption = str(terminal(rankings, "an accuracy").caption)
    assert f"vote ranks the pool of {vote.pool}" in caption
