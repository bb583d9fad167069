import dataclasses
import math

import pytest
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import resolve
from zcbench.errors import ConfigError
from zcbench.evolution.search.scores import Scores
from zcbench.proxies import register


@pytest.fixture
def study(tmp_path):
    def make(*proxies, space="wide", **changes):
        config = StudyConfig(
            space=space,
            dataset="cifar10-samples",
            proxies=list(proxies),
            sample=1,
            batch_sizes=[2],
            out=str(tmp_path / "results"),
            tracker="none",
        )
        return resolve(dataclasses.replace(config, **changes))

    return make


def asked(scores, proxy, *networks):
    scores.need((proxy, network) for network in networks)
    return scores.of(proxy, networks)


def test_scores_are_computed_once_and_kept(study, every_row):
    resolved = study("params", "snip")
    with Scores(resolved) as scores:
        first = asked(scores, "snip", "wide 3", "wide 4")
        assert scores.computed == 2
        assert asked(scores, "snip", "wide 4", "wide 3") == first[::-1]
        assert scores.computed == 2
        asked(scores, "params", "wide 3")
        assert scores.computed == 3
        assert scores.lacking() == []
    rows = every_row(resolved.out)
    assert sorted(zip(rows["architecture"], rows["proxy"], strict=True)) == [
        ("wide 3", "params"),
        ("wide 3", "snip"),
        ("wide 4", "snip"),
    ]
    with Scores(resolved) as scores:
        assert asked(scores, "snip", "wide 3", "wide 4") == first
        assert scores.computed == 0


def test_scores_are_those_of_a_run(study, every_row):
    from zcbench.bench.scoring.runner import run

    resolved = study("snip", sample=40)
    run(resolved)
    with Scores(study("snip")) as scores:
        found = asked(scores, "snip", *(f"wide {width}" for width in range(40)))
        assert scores.computed == 0
    rows = every_row(resolved.out).set_index("architecture")["value"]
    assert found == [rows[f"wide {width}"] for width in range(40)]


def test_a_lower_score_that_is_better_has_its_sign_changed(study):
    with Scores(study("ntk_condition")) as scores:
        assert max(asked(scores, "ntk_condition", "wide 3", "wide 9")) < 0


def test_an_aggregate_ranks_the_networks_of_a_question(study):
    with Scores(study("vote")) as scores:
        both = asked(scores, "vote", "wide 3", "wide 30")
        assert asked(scores, "vote", "wide 3") == asked(scores, "vote", "wide 30")
    assert both[0] != both[1]


def test_a_score_that_is_not_finite_is_none(study):
    @register("of_one", paper="made up")
    def of_one() -> float:
        return math.inf

    with Scores(study("of_one")) as scores:
        assert all(map(math.isnan, asked(scores, "of_one", "wide 1", "wide 2")))
        assert scores.failed == set()  # it is a property of the network
        assert scores.lacking() == [
            "proxy of_one: 2 of 2 networks have no finite score (inf: the definition gives no finite number here)"
        ]


def test_a_proxy_that_fails_on_every_network_is_named(study):
    with Scores(study("snip", space="broken")) as scores, pytest.raises(ConfigError) as caught:
        asked(scores, "snip", *(f"wide {width}" for width in range(6)))
    assert "got snip, which failed on all 6 (error: " in str(caught.value)
    assert "no such kernel" in str(caught.value)


def test_scores_that_failed_are_counted(study):
    with Scores(study("snip", space="broken")) as scores:
        asked(scores, "snip", "wide 1", "wide 2")
        assert scores.failed == {("snip", "wide 1"), ("snip", "wide 2")}


def test_the_representative_of_a_class_is_scored(tmp_path, study, monkeypatch):
    resolved = study("snip")
    monkeypatch.setattr(type(resolved.space), "representative", lambda self, index: index // 10 * 10)
    with Scores(resolved, representatives=True) as scores:
        (first, second, third) = asked(scores, "snip", "wide 11", "wide 10", "wide 20")
        assert scores.computed == 2
    assert first == second != third
