"""The command line of searches for networks, on NAS-Bench-201 with images and accuracies from two small packages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from zcbench.__main__ import main

Refused = Callable[[list[str]], str]

TABLE = ["--dataset", "cifar10-samples", "--validation", "analog-baseline", "--test", "analog-baseline"]
TINY = ["search", *TABLE, "--budget", "6", "--repeats", "3", "--population", "3", "--tracker", "none"]


def test_search_prints_tables_that_fit_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    methods = ["--method", "random,aging,best,aging.moves", "--proxy", "params", "--proxy", "macs"]
    assert main([*TINY, *methods, "--pool", "5", "--children", "2", "--batch_size", "2"]) == 0
    output = capsys.readouterr()
    assert max(map(len, output.out.splitlines())) <= 80
    assert "aging.moves macs" in output.out
    assert "best params" in output.out
    assert "guides too: nb201 has no validation accuracy" in output.err
    assert Path("search-results/search.csv").read_text().startswith("method,proxy,space,dataset,repeat,trained,")
    assert list(Path("results/scores").rglob("*.parquet"))


def test_a_search_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--config", "search/quickstart", "--method", "random", "--repeats", "2"]) == 0
    assert "random" in capsys.readouterr().out
    assert main(["search", "--config", "search/quickstart", "--method", "random", "--repeats", "2", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["out"] == "search-results"
    assert {row["method"] for row in found["tables"]["search"]} == {"random"}
    assert main(["list", "searches"]) == 0
    assert "search/quickstart" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--budget", "0"], "budget: expected 1 trained network or more, got 0"),
        (["--method", "agin"], "unknown search method 'agin': did you mean aging"),
        (["--method", "best"], "proxy: expected the name of one that guides best, got none"),
        (["--method", "aging", "--population", "15626"], "population: expected 1 to 15625 networks of nb201"),
        (["--proxy", "snipp", "--method", "best"], "unknown proxy 'snipp'"),
        (["--dataset", "noise-class_scene"], "nb201 has no accuracies for class_scene"),
    ],
)
def test_bad_input_is_one_line(refused: Refused, arguments: list[str], words: str) -> None:
    assert words in refused([*TINY, *arguments])
