from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from zcbench.errors import ResultsError
from zcbench.evolution.search.outcome import lines, outcomes
from zcbench.evolution.search.play import Run, Trained
from zcbench.evolution.search.report import rows
from zcbench.evolution.search.search import _flat
from zcbench.evolution.search.shown import read


@pytest.fixture
def runs() -> list[Run]:
    """Two methods with three repeats of 100 trainings, of which the second begins ten channels wider."""
    found = []
    for method, proxy, start in (("random", "", 0), ("aging.warmup", "zen", 10)):
        for repeat in range(3):
            widths = [(start + 7 * repeat + 3 * place) % 40 for place in range(100)]
            trained = [Trained(f"wide {w}", 0, 1.0, 50.0 + w, 50.0 + w) for w in widths]
            found.append(Run(method, proxy, repeat, trained))
    return found


@pytest.fixture
def folder(runs: list[Run], benchmark_of, tmp_path: Path) -> Path:
    document = {
        "config": {"space": "wide", "dataset": "cifar10", "repeats": 3},
        "validation": {benchmark_of.validation.name: "made up, with noise"},
        "test": {benchmark_of.test.name: "made up"},
        "optimum": benchmark_of.optimum,
        "outcomes": [
            json.loads(json.dumps(_flat(each)).replace("NaN", "null")) for each in outcomes(runs, benchmark_of)
        ],
    }
    rows(runs, benchmark_of, "cifar10").to_csv(tmp_path / "search.csv", index=False)
    (tmp_path / "search.json").write_text(json.dumps(document))
    return tmp_path


def test_curves_are_those_of_the_search(folder: Path, runs: list[Run], benchmark_of) -> None:
    found = read(folder)
    assert found.optimum == 89.0
    assert found.title.startswith("wide on cifar10, cifar10/")
    assert [method.name for method in found.methods] == ["random", "aging.warmup zen"]
    for method, line in zip(found.methods, lines(runs), strict=True):
        assert method.steps[0] == 1
        assert method.steps[-1] == 100
        assert len(method.steps) <= 60
        for step, point in zip(method.steps, method.curve, strict=True):
            at = step - 1
            assert point == pytest.approx((line.value[at], line.low[at], line.high[at]), rel=1e-12)
    first, second = outcomes(runs, benchmark_of)
    assert found.methods[1].test == (second.test.value, second.test.low, second.test.high)
    assert found.methods[1].gain[0] == second.gain.value
    assert found.methods[0].gain[0] != found.methods[0].gain[0]  # the first has nothing to gain on: NaN
    assert found.methods[0].test[0] == first.test.value


def test_the_shortest_run_ends_a_curve(folder: Path) -> None:
    table = pd.read_csv(folder / "search.csv", keep_default_na=False)
    short = table[(table["repeat"] != 1) | (table["trained"] <= 20)]
    short.to_csv(folder / "search.csv", index=False)
    assert [method.steps[-1] for method in read(folder).methods] == [20, 20]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("search.csv", None, "expected a folder with the search.csv and search.json of zcbench search, got"),
        ("search.json", None, "expected a folder with the search.csv and search.json of zcbench search, got"),
        ("search.json", "{", "is torn or of another zcbench .line 1, column 2 is no JSON"),
        ("search.json", "{}", "is torn or of another zcbench .* is missing"),
        ("search.csv", "", "is torn or of another zcbench .No columns to parse"),
        ("search.csv", "method,proxy\nrandom,\n", "is torn or of another zcbench .*'chosen_test' not found"),
        ("search.csv", "method,proxy,trained,repeat,chosen_test\nrandom,,1,0,5\n", "the methods .* differ"),
    ],
)
def test_what_is_no_search_is_named(folder: Path, name: str, text: str | None, said: str) -> None:
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)
    with pytest.raises(ResultsError, match=said) as error:
        read(folder)
    assert "\n" not in str(error.value)


def test_a_lost_training_is_named(folder: Path) -> None:
    table = pd.read_csv(folder / "search.csv", keep_default_na=False)
    table[table["trained"] != 5].to_csv(folder / "search.csv", index=False)
    with pytest.raises(ResultsError, match="lacks a training"):
        read(folder)
