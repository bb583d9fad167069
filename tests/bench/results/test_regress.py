from __future__ import annotations

import copy
import dataclasses
import functools
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from zcbench.__main__ import main
from zcbench.bench.report.check import as_json, as_junit, as_table
from zcbench.bench.results import regress
from zcbench.bench.results.ranking import select
from zcbench.bench.results.regress import (
    Finding,
    compare,
    exit_status,
    make_baseline,
    read_baseline,
    write_baseline,
)
from zcbench.bench.scoring.runner import run
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import Study, resolve
from zcbench.errors import BaselineError
from zcbench.proxies import PROXIES as REGISTRY

PROXIES = ["params", "naswot", "synflow", "jacob_cov", "snip", "vote"]

Pair = tuple[Study, pd.DataFrame]


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    config = StudyConfig(
        dataset="cifar10-samples",
        accuracy="analog-baseline",
        proxies=PROXIES,
        sample=16,
        batch_sizes=[2],
        seeds=[0, 1],
        out=str(tmp_path_factory.mktemp("study") / "results"),
        tracker="none",
    )
    study = resolve(config)
    run(study)
    return study, select(Store(study.out), study.recipe)


@pytest.fixture
def baseline(studied: Pair, tmp_path: Path) -> dict[str, Any]:
    write_baseline(tmp_path / "baseline.json", make_baseline(studied[0].config, studied[0].recipe, studied[1]))
    return read_baseline(tmp_path / "baseline.json")


def outcomes(findings: list[Finding]) -> dict[str, str]:
    return {finding.proxy: finding.outcome for finding in findings}


def changed(rows: pd.DataFrame, proxy: str, change: Callable[[pd.Series], pd.Series]) -> pd.DataFrame:  # type: ignore[type-arg]
    rows = rows.copy()
    rows.loc[rows["proxy"] == proxy, "value"] = change(rows.loc[rows["proxy"] == proxy, "value"])
    return rows


def test_equal_scores_are_the_same(studied: Pair, baseline: dict[str, Any]) -> None:
    findings = compare(baseline, studied[0].recipe, studied[1])
    assert outcomes(findings) == dict.fromkeys(PROXIES, "same")
    assert exit_status(findings) == 0
    assert all(finding.rho[0] == finding.rho[1] for finding in findings)
    assert {finding.reason for finding in findings} == {"32 scores within 1e-05"}
    # The order of rows is nobody's business.
    study, rows = studied
    assert outcomes(compare(baseline, study.recipe, rows.sample(frac=1, random_state=0))) == outcomes(findings)


def test_the_baseline_knows_its_study(studied: Pair, baseline: dict[str, Any]) -> None:
    config = StudyConfig(**baseline["config"], out="elsewhere", tracker="none")
    assert dataclasses.replace(config, out=studied[0].config.out) == studied[0].config
    assert set(baseline["recipe"]) == {"command", "environment"}
    assert baseline["batches"]["2/0"] == studied[0].batches[2, 0].hash


def test_round_off_is_no_change(studied: Pair, baseline: dict[str, Any]) -> None:
    study, rows = studied
    assert exit_status(compare(baseline, study.recipe, changed(rows, "naswot", lambda v: v * (1 + 9e-6)))) == 0
    assert exit_status(compare(baseline, study.recipe, changed(rows, "naswot", lambda v: v * (1 + 2e-5)))) == 1
    assert (
        exit_status(compare(baseline, study.recipe, changed(rows, "naswot", lambda v: v * (1 + 2e-5)), rtol=1e-4)) == 0
    )


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_change_names_its_proxy_and_no_other(studied: Pair, baseline: dict[str, Any], proxy: str) -> None:
    study, rows = studied
    findings = compare(baseline, study.recipe, changed(rows, proxy, lambda v: -v))
    assert outcomes(findings) == dict.fromkeys(PROXIES, "same") | {proxy: "regressed"}
    assert exit_status(findings) == 1
    first = findings[0]
    assert first.rho[1] == pytest.approx(-first.rho[0])
    assert first.rho_change[0] < first.rho[1] - first.rho[0] < first.rho_change[1]
    assert len(first.moved) == 10
    # Mean ranks over two seeds, from 1 for the highest: the sign turns them round.
    assert all(moved.before + moved.after == pytest.approx(17) for moved in first.moved) or proxy == "jacob_cov"


def test_one_score_is_enough(studied: Pair, baseline: dict[str, Any]) -> None:
    study, rows = studied
    rows = rows.copy()
    place = rows.index[(rows["proxy"] == "snip") & (rows["seed"] == 1)][3]
    rows.loc[place, "value"] *= 1.01
    (finding,) = [f for f in compare(baseline, study.recipe, rows) if f.outcome != "same"]
    assert finding.proxy == "snip"
    assert finding.reason == "1 of 32 scores differ, by up to 0.99%"


@pytest.mark.parametrize(("value", "status"), [(np.nan, "nan"), (np.nan, "error"), (1.0, "ok"), (np.inf, "ok")])
def test_statuses_count(studied: Pair, baseline: dict[str, Any], value: float, status: str) -> None:
    study, rows = studied
    rows = rows.copy()
    place = rows.index[rows["proxy"] == "synflow"][5]
    rows.loc[place, ["value", "status"]] = value, status
    findings = compare(baseline, study.recipe, rows)
    assert outcomes(findings)["synflow"] == "regressed"
    as_json(findings), as_junit(findings, "b", "zcbench check --update"), as_table(findings, "b")


def test_versions_are_not_comparable(studied: Pair, baseline: dict[str, Any]) -> None:
    study, rows = studied
    newer = rows.assign(version=rows["version"].mask(rows["proxy"] == "snip", 7))
    findings = compare(baseline, study.recipe, newer)
    assert outcomes(findings) == dict.fromkeys(PROXIES, "same") | {"snip": "not comparable"}
    assert "version 1 is now 7" in findings[0].reason
    assert exit_status(findings) == 3
    assert exit_status(compare(baseline, study.recipe, changed(newer, "naswot", lambda v: -v))) == 1
    gone = compare(baseline, study.recipe, rows[rows["proxy"] != "snip"])
    assert outcomes(gone)["snip"] == "not comparable"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda b: b.update(protocol="1"), "protocol 1 is now 2"),
        (lambda b: b.update(device="cuda"), "device cuda is now cpu"),
        (lambda b: b.update(truth="cifar10/test-200"), "truth cifar10/test-200 is now cifar10/analog-baseline"),
        (lambda b: b["batches"].update({"2/1": "0" * 16}), "the images of the batches differ"),
        (lambda b: b["accuracies"].update({next(iter(b["accuracies"])): 50.0}), "the accuracies differ"),
        (lambda b: b["accuracies"].pop(next(iter(b["accuracies"]))), "the networks differ"),
    ],
)
def test_another_study_is_not_comparable(
    studied: Pair, baseline: dict[str, Any], change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    changed_baseline = copy.deepcopy(baseline)
    change(changed_baseline)
    findings = compare(changed_baseline, studied[0].recipe, studied[1])
    assert outcomes(findings) == dict.fromkeys(PROXIES, "not comparable")
    assert all(reason in finding.reason for finding in findings)
    assert exit_status(findings) == 3


def test_another_machine_of_the_same_class_is_comparable(studied: Pair, baseline: dict[str, Any]) -> None:
    study, rows = studied
    for device in ("cpu", "cpu AVX512", "cpu SOME NEW SET"):
        baseline["device"] = device
        other = dataclasses.replace(study.recipe, torch="1.0.0")
        assert outcomes(compare(baseline, other, rows)) == dict.fromkeys(PROXIES, "same")
    for device in ("cuda NVIDIA H200", "cpu float64", "cpu AVX2 float64"):
        baseline["device"] = device
        assert outcomes(compare(baseline, study.recipe, rows)) == dict.fromkeys(PROXIES, "not comparable")


def test_on_other_versions_correlations_decide(studied: Pair, baseline: dict[str, Any]) -> None:
    study, rows = studied
    baseline["recipe"]["environment"]["torch"] = "2.0.0"
    findings = compare(baseline, study.recipe, changed(rows, "naswot", lambda v: v * (1 + 1e-4)))
    assert outcomes(findings)["naswot"] == "same"
    assert "torch differ from the baseline's" in next(f for f in findings if f.proxy == "naswot").reason
    findings = compare(baseline, study.recipe, changed(rows, "naswot", lambda v: -v))
    assert outcomes(findings)["naswot"] == "regressed"


def test_reports(studied: Pair, baseline: dict[str, Any]) -> None:
    study, rows = studied
    findings = compare(baseline, study.recipe, changed(rows, "snip", lambda v: -v))
    records = json.loads(as_json(findings))
    assert [record["outcome"] for record in records] == ["regressed"] + ["same"] * 5
    suite = ET.fromstring(as_junit(findings, "baseline", "zcbench check --update"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "1", "0")
    failure = suite.find("testcase/failure")
    assert failure is not None
    todo, heading, *moved = (failure.text or "").splitlines()
    assert todo == (
        "not meant: undo the change; meant: raise the version of snip, run zcbench check --update, commit the file"
    )
    assert heading == "networks whose rank moved most; rank 1 has the highest score:"
    assert len(moved) == 10


def test_infinities_are_kept(studied: Pair, tmp_path: Path) -> None:
    study, rows = studied
    rows = rows.copy()
    rows.loc[rows.index[0], ["value", "status"]] = -np.inf, "infinite"
    write_baseline(tmp_path / "b.json", make_baseline(study.config, study.recipe, rows))
    assert exit_status(compare(read_baseline(tmp_path / "b.json"), study.recipe, rows)) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"cannot read .*--update"),
        ("", "torn or not JSON"),
        ('{"format": 1, "networks": {', "torn or not JSON"),
        ("[" * 100_000, "torn or not JSON"),
        ("<html>", "torn or not JSON"),
        ("[]", "no baseline"),
        ('{"format": 2}', "has format 2, this zcbench reads up to 1"),
        ('{"format": "1"}', "has format 1, this zcbench reads up to 1|no baseline"),
        ('{"format": 1}', r"no baseline \(\w+ is missing"),
    ],
)
def test_bad_baselines_are_one_line(
    tmp_path: Path, content: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BaselineError, match=message):
        read_baseline(path)
    assert main(["check", "--baseline", str(path), "--results", str(tmp_path / "r")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("short", "expected 16 scores of jacob_cov"),
        ("text", "expected a number, got 'many'"),
        ("setting", "unknown settings colour"),
        ("nothing", "it holds no scores"),
        ("seed", "seed is missing"),
        ("list", "expected a text as proxy, got a list"),
        ("nested", "expected numbers as scores of jacob_cov"),
        ("environment", "expected the environment by name"),
        ("format", 'expected 1 to 1 as format, got "1"'),
        ("empty", "expected settings by name as config, got none"),
        ("few", "expected numbers of networks by name as sample_of"),
    ],
)
def test_baselines_that_lost_something(baseline: dict[str, Any], tmp_path: Path, fault: str, said: str) -> None:
    match fault:
        case "short":
            baseline["scores"][0]["values"].pop()
        case "text":
            baseline["scores"][0]["values"][0] = "many"
        case "setting":
            baseline["config"]["colour"] = "red"
        case "nothing":  # before, a gate without scores passed
            baseline["scores"] = []
        case "seed":
            del baseline["scores"][0]["seed"]
        case "list":
            baseline["scores"][0]["proxy"] = ["jacob_cov"]
        case "nested":
            baseline["scores"][0]["values"][0] = [1]
        case "environment":
            baseline["recipe"]["environment"] = []
        case "format":
            baseline["format"] = "1"
        case "empty":
            baseline["config"] = {}
        case "few":
            baseline["config"]["sample_of"] = ["naswot"]
    (tmp_path / "b.json").write_text(json.dumps(baseline))
    with pytest.raises(BaselineError, match=rf"no baseline \({said}\)"):
        read_baseline(tmp_path / "b.json")


CONFIG = """version: 1
space: nb201
dataset: cifar10-samples
accuracy: analog-baseline
sample: 3
batch_sizes: [2]
proxies: [params, naswot]
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(CONFIG)
    assert main(["check", "--baseline", "b.json", "--config", "study.yaml"]) == 2
    assert main(["check", "--baseline", "b.json", "--config", "study.yaml", "--update"]) == 0
    assert "b.json: 3 networks, 2 proxies" in capsys.readouterr().err
    assert main(["check", "--baseline", "b.json", "--junit", "junit.xml"]) == 0
    assert ET.parse("junit.xml").getroot().get("failures") == "0"
    output = capsys.readouterr().out
    assert "2 same" in output
    assert max(map(len, output.splitlines())) <= 100
    document = json.loads(Path("b.json").read_text())
    document["scores"][0]["values"][0] += 1  # naswot
    Path("b.json").write_text(json.dumps(document))
    assert main(["check", "--baseline", "b.json", "--json"]) == 1
    records = json.loads(capsys.readouterr().out)
    assert records[0]["outcome"] == "regressed"
    assert main(["check", "--baseline", "b.json"]) == 1
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
    # The baseline's own study is what an update computes.
    assert main(["check", "--baseline", "b.json", "--update", "--results", "anew"]) == 0
    assert main(["check", "--baseline", "b.json", "--results", "anew"]) == 0


def test_a_check_computes_and_knows_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before: with scores of the right code in the folder, a fault planted in synflow was 4 same, exit 0."""
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(CONFIG.replace("naswot", "synflow"))
    assert main(["run", "--config", "study.yaml", "--tracker", "none"]) == 0
    check = ["check", "--baseline", "b.json"]
    assert main([*check, "--config", "study.yaml", "--update", "--results", "kept"]) == 0
    assert main(check) == main([*check, "--results", "kept"]) == 0

    right = REGISTRY["synflow"]

    @functools.wraps(right.function)
    def wrong(**given: object) -> float:
        return -float(right.function(**given))

    monkeypatch.setitem(REGISTRY._items, "synflow", dataclasses.replace(right, function=wrong))
    assert main(check) == 1
    monkeypatch.setattr("zcbench.cli.check.of_package", lambda: "0" * 12)
    capsys.readouterr()
    assert main([*check, "--results", "kept", "--json"]) == 1
    (worst, *rest) = json.loads(capsys.readouterr().out)
    assert (worst["proxy"], worst["outcome"]) == ("synflow", "regressed")
    assert {finding["outcome"] for finding in rest} == {"same"}


def test_a_failed_score_is_neither_a_baseline_nor_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(CONFIG)
    check = ["check", "--baseline", "b.json"]
    assert main([*check, "--config", "study.yaml", "--update"]) == 0

    def fail() -> float:
        raise MemoryError("planted")

    monkeypatch.setitem(REGISTRY._items, "params", dataclasses.replace(REGISTRY["params"], function=fail))
    assert main([*check, "--update"]) == 4
    assert "b.json: not written, because a baseline needs every score" in capsys.readouterr().err
    assert main(check) == 1  # another status


def test_pinned_names_are_of_the_environment() -> None:
    assert set(regress._PINNED) <= set(regress.environment())
