from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from zcbench.__main__ import main
from zcbench.bench.report.table import terminal
from zcbench.bench.results.board import boards, joined
from zcbench.bench.results.panel import of_recipe
from zcbench.bench.results.published.recompute import recompute
from zcbench.bench.results.published.sources import merged
from zcbench.bench.results.ranking import select, summarise
from zcbench.bench.results.regress import compare, make_baseline, read_baseline, write_baseline
from zcbench.bench.scoring.runner import run
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.recipe import from_document
from zcbench.bench.study.resolve import Study, named, resolve
from zcbench.errors import ConfigError, IncompleteError
from zcbench.proxies import AGGREGATES, PROXIES

#: Aggregates read naswot and jacob_cov; naswot scores the first 12 of 20 networks alone, and az_trainability 14.
CONFIG = StudyConfig(
    dataset="cifar10-samples",
    accuracy="analog-baseline",
    proxies=["params", "naswot", "jacob_cov", "az_nas"],
    sample=20,
    sample_of={"naswot": 12, "az_trainability": 14, "synflow": 3},
    batch_sizes=[2],
    tracker="none",
)
COUNTS = {"params": 20, "naswot": 12, "jacob_cov": 20, "az_expressivity": 20, "az_trainability": 14}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    found = resolve(dataclasses.replace(CONFIG, out=str(tmp_path_factory.mktemp("few") / "results")))
    run(found)
    return found


def scores(study: Study) -> pd.DataFrame:
    return select(Store(study.out), study.recipe)


def test_a_proxy_scores_the_first_networks_of_the_sample(study: Study) -> None:
    rows = scores(study)
    assert study.recipe.sample_of == {"naswot": 12, "az_trainability": 14}, "synflow is not of the study"
    for proxy, count in COUNTS.items():
        own = set(rows[rows["proxy"] == proxy]["architecture"])
        assert own == set(study.recipe.architectures[:count]), proxy
    assert len(list(study.recipe.keys())) == len(Store(study.out).rows(study.recipe))
    assert Store(study.out).missing(study.recipe, 1) == {}


def test_the_first_networks_are_those_of_a_smaller_sample(study: Study) -> None:
    small = resolve(dataclasses.replace(study.config, sample=12, sample_of={}, proxies=["naswot", "params"]))
    assert Store(study.out).missing(small.recipe, 1) == {}, "what a sample of 12 asks for is there"
    found = {r.proxy: r for r in summarise(small.recipe, scores(small))}["naswot"]
    here = {r.proxy: r for r in summarise(study.recipe, scores(study))}["naswot"]
    assert (here.correlation.n, here.networks, here.coverage) == (12, 12, 1)
    assert (here.correlation.tau, here.correlation.rho) == (found.correlation.tau, found.correlation.rho)


def test_an_aggregate_ranks_what_all_its_members_score(study: Study) -> None:
    own = scores(study).query("proxy == 'az_nas'")
    assert set(own["architecture"]) == set(study.recipe.architectures[:14])
    assert set(own["status"]) == {"ok"}


def test_networks_beyond_are_not_asked_for(study: Study) -> None:
    panels = {panel.proxy: panel for panel in of_recipe(study.recipe, scores(study)).panels}
    assert panels["naswot"].asked[:, 0].tolist() == [True] * 12 + [False] * 8
    assert panels["params"].asked.all()
    np.testing.assert_array_equal(panels["naswot"].finite, panels["naswot"].asked)


def test_more_networks_in_the_store_change_nothing(study: Study, tmp_path: Path) -> None:
    whole = resolve(dataclasses.replace(study.config, sample_of={}, out=str(tmp_path)))
    run(whole)
    few = dataclasses.replace(whole, config=dataclasses.replace(whole.config, sample_of=CONFIG.sample_of))
    pd.testing.assert_frame_equal(
        scores(few).drop(columns=["wall_s", "peak_mib", "written_ns"]),
        scores(study).drop(columns=["wall_s", "peak_mib", "written_ns"]),
    )


def test_the_table_says_of_how_many(study: Study) -> None:
    caption = str(terminal(summarise(study.recipe, scores(study)), "").caption)
    assert "of 12 networks: naswot\nof 14 networks: " in caption


def test_a_score_that_is_missing_is_named(study: Study) -> None:
    more = dataclasses.replace(study.recipe, sample_of={"naswot": 13, "az_trainability": 14})
    with pytest.raises(IncompleteError, match="1 of 127 scores are missing, first naswot"):
        select(Store(study.out), more)


def test_a_recipe_is_read_as_it_was_written(study: Study) -> None:
    document = json.loads(json.dumps(study.recipe.document()))
    assert from_document(document, "x") == study.recipe
    del document["sample_of"]  # as older records are
    assert from_document(document, "x").sample_of == {}


def test_a_part_of_a_recipe_keeps_the_networks_of_every_proxy(study: Study) -> None:
    chosen = study.recipe.architectures[10:16]
    part = study.recipe.part(chosen)
    assert part.sample_of == {"naswot": 2, "az_trainability": 4}
    few = study.part(chosen).recipe
    assert (few.accuracies, few.sample_of) == (part.accuracies, part.sample_of)
    last = study.part(study.recipe.architectures[14:]).recipe
    assert {"naswot", "az_trainability"}.isdisjoint({*last.versions, *(item.proxy for item in last.items())})
    assert set(part.keys()) == {key for key in list(study.recipe.keys()) if key[1] in chosen}


def test_of_two_runs_the_one_with_more_networks_counts(study: Study) -> None:
    (board,) = boards(study.out)
    more = dataclasses.replace(board, recipe=dataclasses.replace(board.recipe, sample_of={"naswot": 15}))
    assert joined(board, more).recipe.sample_of == joined(more, board).recipe.sample_of == {"naswot": 15}
    newer = dataclasses.replace(
        board, recipe=dataclasses.replace(board.recipe, versions={**board.recipe.versions, "naswot": 99})
    )
    assert joined(newer, more).recipe.sample_of == {"naswot": 12}, "other versions are other scores"


def test_the_networks_of_an_entry_and_of_the_board_are_together(study: Study) -> None:
    (board,) = boards(study.out)
    rows = Store(study.out).rows(board.recipe)
    short = dataclasses.replace(board, recipe=dataclasses.replace(board.recipe, sample_of={"naswot": 5}))
    few = Store(study.out).rows(short.recipe)
    for older, newer in (((board, rows), (short, few)), ((short, few), (board, rows))):
        both, found = merged(older, newer)
        assert len(found[found["proxy"] == "naswot"]) == both.recipe.networks_of("naswot") == 12


def test_a_baseline_holds_the_first_networks(study: Study, tmp_path: Path) -> None:
    rows = scores(study)
    document = make_baseline(study.config, study.recipe, rows)
    write_baseline(tmp_path / "baseline.json", document)
    assert read_baseline(tmp_path / "baseline.json") == document
    lengths = {score["proxy"]: len(score["values"]) for score in document["scores"]}
    assert COUNTS.items() <= lengths.items()
    assert {finding.outcome for finding in compare(document, study.recipe, rows)} == {"same"}
    moved = rows.copy()
    moved.loc[(moved["proxy"] == "naswot").to_numpy().nonzero()[0][:3], "value"] = 0
    found = compare(document, study.recipe, moved)
    assert [(f.proxy, f.outcome, f.scores) for f in found if f.outcome != "same"] == [("naswot", "regressed", 12)]
    less = rows[(rows["proxy"] != "naswot") | rows["architecture"].isin(study.recipe.architectures[:11])]
    (first, *_) = compare(document, study.recipe, less)
    assert (first.proxy, first.outcome) == ("naswot", "not comparable")
    assert first.reason == "it scored 12 networks, and 11 now: use --update"


def test_a_leaderboard_with_fewer_networks_is_made_verified_and_computed_again(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "board"
    assert main(["leaderboard", "--results", str(study.out), "--out", str(out)]) == 0
    assert main(["leaderboard", "--out", str(out), "--verify"]) == 0
    page = (out / "index.html").read_text("utf-8")
    assert "the first 12 networks alone: naswot" in page
    assert '<small title="the proxy scores the first 12 networks of the sample alone">of 12</small>' in page
    ((_, count, findings),) = recompute(out, 20)
    assert count == 20
    assert {finding.proxy: finding.scores for finding in findings}.items() >= COUNTS.items()
    assert {finding.outcome for finding in findings} == {"same"}
    capsys.readouterr()


def test_a_space_that_a_proxy_scores_in_part_is_no_census() -> None:
    whole = dataclasses.replace(CONFIG, sample=0, sample_of={})
    assert resolve(whole).recipe.resamples == 0
    few = resolve(dataclasses.replace(whole, sample_of={"naswot": 50})).recipe
    assert (few.resamples, few.sample_of) == (1000, {"naswot": 50})


def test_with_no_networks_all_is_without_a_proxy_and_the_aggregates_that_read_it() -> None:
    most = named(dataclasses.replace(CONFIG, proxies="all", sample_of={"snip": 0, "hnas": 3}))
    assert {*PROXIES, *AGGREGATES} - {*most} == {"snip", "vote"}
    for name in ("snip", "vote"):
        with pytest.raises(ConfigError, match=f"expected 1 or more networks for snip, which {name} is or reads, got 0"):
            named(dataclasses.replace(CONFIG, proxies=["params", name], sample_of={"snip": 0}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("naswot=-1", "sample_of: expected 0 or more networks for naswot, got -1"),
        ("nawot=3", "unknown proxy 'nawot': did you mean naswot"),
        ("az_nas=3", "sample_of: expected proxies, got the aggregate az_nas: name its members"),
        ("naswot=few", "sample_of: expected names with whole numbers, got few"),
    ],
)
def test_wrong_numbers_are_one_line(given: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", "--dataset", "cifar10-samples", "--out", str(tmp_path), f"--sample_of.{given}"])
    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (2, 1)
    assert said in error
