from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from zcbench.bench.report.table import terminal
from zcbench.bench.results.aggregates import pooled
from zcbench.bench.results.ranking import select, summarise
from zcbench.bench.scoring.runner import missing, run
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import ALL, StudyConfig
from zcbench.bench.study.resolve import Study, resolve
from zcbench.errors import ConfigError
from zcbench.proxies import AGGREGATES, PROXIES
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


def selected(study: Study) -> pd.DataFrame:
    return select(Store(study.out), study.recipe)


MEMBERS = {"synflow": [4.0, 3.0, 2.0, 1.0], "jacob_cov": [1.0, 4.0, 3.0, 2.0], "snip": [4.0, 2.0, 3.0, 1.0]}


def rows_of(study: Study, values: dict[str, list[float]], batch_size: int = 2, seed: int = 0) -> pd.DataFrame:
    """Rows as `select` has them, of networks a, b, c..."""
    frames = [
        pd.DataFrame(
            {
                "space": "nb201",
                "architecture": list("abcdef")[: len(scores)],
                "dataset": "cifar10-samples",
                "batch_hash": f"hash {batch_size} {seed}",
                "batch_size": batch_size,
                "seed": seed,
                "proxy": proxy,
                "version": 1,
                "protocol": "2",
                "device": "cpu",
                "torch": "2.13.0",
                "value": scores,
                "status": "ok",
                "message": "",
                "wall_s": 0.25,
                "peak_mib": 100.0 + place,
            }
        )
        for place, (proxy, scores) in enumerate(values.items())
    ]
    return pd.concat(frames, ignore_index=True)


def ranked(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    (frame,) = pooled(study.recipe, rows)
    return frame


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool") / "results"
    run(study_of(folder, seeds=[0, 1]))
    return folder


def test_an_aggregate_computes_its_members_and_ranks_them(out: Path) -> None:
    rows = selected(study_of(out))
    assert set(rows["proxy"]) == {"vote", "synflow", "jacob_cov", "snip"}
    members = rows[rows["proxy"] != "vote"].pivot(index="architecture", columns="proxy", values="value")
    expected = AGGREGATES["vote"].score({name: members[name].to_numpy() for name in AGGREGATES["vote"].members})
    found = rows[rows["proxy"] == "vote"].set_index("architecture").loc[members.index]
    np.testing.assert_array_equal(found["value"], expected)
    assert set(found["pool"]) == {pool_id(members.index[~np.isnan(expected)])}
    assert set(rows.loc[rows["proxy"] != "vote", "pool"]) == {""}


def test_aggregates_are_never_stored(out: Path, every_row: Callable[[Path], pd.DataFrame]) -> None:
    assert "vote" not in set(every_row(out)["proxy"])
    assert missing(study_of(out, seeds=[0, 1]), Store(out)) == []


def test_another_sample_is_another_pool(out: Path) -> None:
    small, large = (selected(study_of(out, sample=n)).query("proxy == 'vote'") for n in (4, 6))
    assert set(small["pool"]).isdisjoint(large["pool"])
    both = small.merge(large, on="architecture", suffixes=("_small", "_large"))
    assert not both["value_small"].equals(both["value_large"])


def test_every_seed_is_a_pool_of_its_own(out: Path) -> None:
    both = selected(study_of(out, seeds=[0, 1])).query("proxy == 'vote'")
    for seed in (0, 1):
        alone = selected(study_of(out, seeds=[seed])).query("proxy == 'vote'")
        pd.testing.assert_frame_equal(
            both[both["seed"] == seed].reset_index(drop=True), alone.reset_index(drop=True), check_exact=True
        )


def test_other_proxies_and_their_order_do_not_matter(out: Path) -> None:
    more = study_of(out, proxies=["params", "snip", "vote"])
    run(more)
    expected = selected(study_of(out)).query("proxy == 'vote'").reset_index(drop=True)
    pd.testing.assert_frame_equal(
        selected(more).query("proxy == 'vote'").reset_index(drop=True), expected, check_exact=True
    )


def test_an_aggregate_has_a_row_like_its_members(out: Path) -> None:
    study = study_of(out)
    rows = rows_of(study, MEMBERS)
    found = ranked(study, rows)
    assert set(found.columns) == {*rows.columns, "pool"}
    # a wins by synflow and snip against jacob_cov, b beats c by two of three, all agree that d is below b and c.
    assert found["value"].tolist() == [3, 2, 1, 0]
    assert found["wall_s"].tolist() == [0.75] * 4
    assert found["peak_mib"].tolist() == [102] * 4
    assert set(found["status"]) == {"ok"}
    for shuffled in (rows.sample(frac=1, random_state=seed, ignore_index=True) for seed in range(3)):
        pd.testing.assert_frame_equal(ranked(study, shuffled), found, check_exact=True)


def test_a_member_without_a_score_makes_the_pool_smaller(out: Path) -> None:
    study = study_of(out)
    values = MEMBERS | {"snip": [np.nan, 2.0, 3.0, -np.inf]}
    found = ranked(study, rows_of(study, values)).set_index("architecture")
    np.testing.assert_array_equal(found["value"], [np.nan, 2, 1, 0])
    assert found["status"].tolist() == ["not_applicable", "ok", "ok", "ok"]
    assert found["message"].tolist() == ["a member has no score", "", "", ""]
    assert set(found["pool"]) == {pool_id("bcd")}
    nobody = ranked(study, rows_of(study, MEMBERS | {"snip": [np.nan] * 4}))
    assert nobody["value"].isna().all()
    assert set(nobody["pool"]) == {pool_id([])}


def test_members_meet_at_the_batch_size_of_each_protocol(out: Path) -> None:
    study = study_of(out)
    study = dataclasses.replace(study, config=dataclasses.replace(study.config, batch_sizes=[]))
    small = rows_of(study, {"synflow": MEMBERS["synflow"]}, batch_size=1)
    large = rows_of(study, {name: MEMBERS[name] for name in ("jacob_cov", "snip")}, batch_size=64)
    found = ranked(study, pd.concat([small, large], ignore_index=True))
    assert found["value"].tolist() == [3, 2, 1, 0]
    assert set(found["batch_size"]) == {64}
    assert set(found["batch_hash"]) == {"hash 64 0"}


def test_every_batch_size_is_a_pool_of_its_own(out: Path) -> None:
    study = study_of(out, batch_sizes=[2, 3], seeds=[0, 1])
    other = {name: values[::-1] for name, values in MEMBERS.items()}
    missing = MEMBERS | {"snip": [np.nan, *MEMBERS["snip"][1:]]}
    parts = {(2, 0): MEMBERS, (3, 0): other, (2, 1): missing, (3, 1): MEMBERS}
    rows = pd.concat([rows_of(study, values, *key) for key, values in parts.items()], ignore_index=True)
    found = {(int(f["batch_size"].iloc[0]), int(f["seed"].iloc[0])): f for f in pooled(study.recipe, rows)}
    assert {key: frame["value"].tolist() for key, frame in found.items() if key != (2, 1)} == {
        (2, 0): [3, 2, 1, 0],
        (3, 0): [0, 1, 2, 3],
        (3, 1): [3, 2, 1, 0],
    }
    np.testing.assert_array_equal(found[2, 1]["value"], [np.nan, 2, 1, 0])
    pools = {key: set(frame["pool"]) for key, frame in found.items()}
    assert pools == {key: {pool_id("abcd")} for key in parts} | {(2, 1): {pool_id("bcd")}}


def test_two_batch_sizes_of_one_study_are_two_lines(tmp_path: Path) -> None:
    study = study_of(tmp_path / "results", sample=3, batch_sizes=[2, 3])
    run(study)
    rows = select(Store(study.out), study.recipe)
    for size in (2, 3):
        only = study_of(tmp_path / "results", sample=3, batch_sizes=[size])
        pd.testing.assert_frame_equal(
            rows[rows["batch_size"].eq(size) & rows["proxy"].eq("vote")].reset_index(drop=True),
            selected(only).query("proxy == 'vote'").reset_index(drop=True),
            check_exact=True,
        )
    lines = [(r.proxy, r.batch_size) for r in summarise(study.recipe, rows)]
    assert sorted(lines) == [(p, b) for p in ("jacob_cov", "snip", "synflow", "vote") for b in (2, 3)]


def test_networks_outside_the_pool_lower_the_coverage(out: Path, tmp_path: Path) -> None:
    study = study_of(tmp_path / "results", sample=4)
    dead = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"  # its jacob_cov does not exist
    study = dataclasses.replace(study, indices=(*study.indices, study.space.index(dead)))
    run(study)
    rankings = {r.proxy: r for r in summarise(study.recipe, select(Store(study.out), study.recipe))}
    assert rankings["vote"].networks == 5
    assert rankings["vote"].coverage == pytest.approx(4 / 5)
    assert rankings["vote"].failures == {"not_applicable": 1}
    assert rankings["vote"].correlation.n == 4
    assert rankings["vote"].pool == pool_id(map(study.space.architecture, study.indices[:4]))


def test_the_pools_of_all_seeds_are_named(out: Path) -> None:
    study = study_of(out, seeds=[0, 1])
    rows = select(Store(study.out), study.recipe)
    one = rows["architecture"].iloc[0]
    rows.loc[rows["proxy"].eq("snip") & rows["seed"].eq(1) & rows["architecture"].eq(one), "value"] = np.nan
    members = rows[rows["proxy"] != "vote"]
    rows = pd.concat([members, *pooled(study.recipe, members)], ignore_index=True)
    (vote,) = [r for r in summarise(study.recipe, rows) if r.proxy == "vote"]
    pools = set(rows.loc[rows["proxy"] == "vote", "pool"])
    assert len(pools) == 2
    assert all(pool in vote.pool for pool in pools)


def test_a_study_of_all_has_every_proxy_and_aggregate(out: Path) -> None:
    study = study_of(out, proxies=ALL)
    assert [p.name for p in study.proxies] == list(PROXIES)
    assert [a.name for a in study.aggregates] == list(AGGREGATES)
    assert [card.name for card in study.cards] == [*PROXIES, *AGGREGATES]


def test_a_member_named_beside_its_aggregate_is_computed_once(out: Path) -> None:
    study = study_of(out, proxies=["vote", "snip"])
    assert [p.name for p in study.proxies] == ["snip", "synflow", "jacob_cov"]
    assert set(study.recipe.keys()) == set(study_of(out).recipe.keys())
    with pytest.raises(ConfigError, match="vote twice"):
        study_of(out, proxies=["vote", "vote"])


def test_the_table_says_which_pool(out: Path) -> None:
    study = study_of(out)
    rankings = summarise(study.recipe, select(Store(study.out), study.recipe))
    (vote,) = [r for r in rankings if r.proxy == "vote"]
    assert vote.pool
    assert vote.networks == 6
    assert vote.flat()["pool"] == vote.pool
    assert vote.ms > 0
    caption = str(terminal(rankings, "an accuracy").caption)
    assert f"vote ranks the pool of {vote.pool}" in caption
