from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
from zcbench.__main__ import main
from zcbench.bench.scoring import parts
from zcbench.bench.scoring.parts import is_part
from zcbench.bench.scoring.store import Store

from ..rows import ROW as ANY_ROW

Refused = Callable[[list[str]], str]

ROW = replace(ANY_ROW, architecture="a", device="cpu AVX2 float64", peak_mib=1.0)
NAN = float("nan")


@pytest.fixture
def store() -> Store:
    store = Store(Path("out"))
    store.create()
    scores = [replace(ROW, architecture=a, proxy=p, value=v) for v, a in enumerate("abc") for p in ("snip", "zen")]
    store.writer().add(scores)
    store.writer().add([replace(ROW, dataset="cifar100", value=NAN, status="timeout", message="=1+1")])
    store.writer().add([replace(ROW, seed=1, value=NAN, status="error")])
    store.writer().add([replace(ROW, seed=1)])
    store.writer().add([replace(ROW, value=0)])  # as a killed join leaves it
    return store


def run(*arguments: str) -> int:
    return main(["results", *arguments, "--results", "out"])


def test_show_counts_what_is_there(store: Store, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    assert run("show", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    (ten, hundred) = found["holdings"]
    assert (ten["space"], ten["dataset"], ten["parts"]) == ("nb201", "cifar10", 4)
    (machine,) = ten["machines"]
    assert machine == {
        "device": "cpu AVX2 float64",
        "torch": "2.13.0",
        "networks": 3,
        "proxies": 2,
        "batch_sizes": [16],
        "seeds": [0, 1],
        "scores": 8,
        "attempts": {"error": 1},
        "runs": 0,
    }
    assert hundred["machines"][0]["attempts"] == {"timeout": 1}
    assert found["bytes"] == sum(part.stat().st_size for part in store.parts())
    monkeypatch.setenv("COLUMNS", "80")
    assert run("show") == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "3 networks, 2 proxies, 0 runs" in shown


def test_verify_finds_nothing_in_a_whole_folder(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify") == 0
    assert capsys.readouterr().out == ""


def faults(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run("verify") == 1
    return capsys.readouterr().out.splitlines()


def test_verify_names_every_fault(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    torn, moved, *_ = store.parts()
    torn.write_bytes(torn.read_bytes()[:-1])
    moved.rename(moved.parent.with_name("dataset=cifar100") / moved.name)
    (stray := store.scores / "space=nb201" / torn.name).write_bytes(b"")
    (store.folder / "runs" / "x.json").write_text("{")
    found = faults(capsys)
    assert len(found) == 4
    for path in (torn, store.scores / "space=nb201" / "dataset=cifar100" / moved.name, stray, "x.json"):
        assert any(str(path) in line for line in found), path


def test_verify_names_both_parts_of_a_contradiction(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(store.parts())
    store.writer().add([replace(ROW, value=7.0)])
    (new,) = set(store.parts()) - before
    (line,) = faults(capsys)
    assert str(new) in line
    assert any(str(part) in line for part in before)
    assert "0.0 and 7.0" in line


def test_verify_names_a_torn_manifest(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    (store.folder / "zcbench.json").write_text("{")
    (line,) = faults(capsys)
    assert "zcbench.json is torn" in line


def test_compact_joins_all_and_drops_what_is_superseded(
    store: Store, every_row: Callable[[Path], pd.DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compact") == 0
    assert capsys.readouterr().out == "out: 5 parts are now 2\n"
    rows = every_row(store.folder)
    assert len(rows) == 3 * 2 + 1 + 1
    assert list(rows["status"]).count("error") == 0
    assert list(rows["status"]).count("timeout") == 1
    ten = rows[rows["dataset"] == "cifar10"]
    assert list(ten["proxy"]) == sorted(ten["proxy"])
    assert run("verify") == 0
    assert run("compact") == 0
    pd.testing.assert_frame_equal(every_row(store.folder), rows)


def test_compact_keeps_the_number_of_attempts(store: Store, every_row: Callable[[Path], pd.DataFrame]) -> None:
    failed = replace(ROW, dataset="cifar100", value=NAN, status="crashed")
    store.writer().add([failed])
    assert run("compact") == 0
    assert sorted(every_row(store.folder).query("dataset == 'cifar100'")["status"]) == ["crashed", "timeout"]


def test_compact_that_fails_removes_nothing(store: Store, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    store.writer().add([replace(ROW, proxy="zen", value=7.0)])
    before = sorted(store.scores.rglob("*"))
    monkeypatch.setattr("zcbench.bench.results.holdings.JOINED_ROWS", 1)  # a part is written before the fault is met
    assert run("compact") == 2
    assert "different values" in capsys.readouterr().err
    assert sorted(store.scores.rglob("*")) == before


def test_a_run_goes_on_while_its_parts_are_compacted(every_row: Callable[[Path], pd.DataFrame]) -> None:
    store = Store(Path("out"))
    store.create()
    with store.writer() as writer:
        for seed in range(20):
            writer.add([replace(ROW, seed=seed)])
        assert run("compact") == 0
        for seed in range(20, 40):
            writer.add([replace(ROW, seed=seed)])
    assert set(every_row(store.folder)["seed"]) == set(range(40))
    assert run("verify") == 0


@pytest.mark.parametrize(
    ("name", "read"),
    [("x.csv", pd.read_csv), ("x.parquet", pd.read_parquet), ("x.json", pd.read_json)],
)
def test_export_writes_one_row_per_key(store: Store, name: str, read: Callable[[str], pd.DataFrame]) -> None:
    assert main(["results", "export", name, "--results", "out"]) == 0
    rows = read(name)
    assert len(rows) == 8
    assert list(rows.columns) == [*asdict(ROW), "written_ns"]
    assert rows.query("dataset == 'cifar10' and seed == 0 and proxy == 'zen'")["value"].tolist() == [0, 1, 2]
    assert main(["results", "export", name, "--results", "out", "--dataset", "cifar10", "--proxy", "zen"]) == 0
    assert len(read(name)) == 3
    assert sorted(path.name for path in Path().iterdir()) == ["out", name]


def test_wrong_arguments_are_refused(refused: Refused) -> None:
    assert "does not exist" in refused(["results", "show"])
    assert "expected a file after `export`" in refused(["results", "export"])
    assert "expected a file after `export`" in refused(["results", "show", "x.csv"])
    assert "goes with export" in refused(["results", "show", "--proxy", "snip"])
    assert "goes with show and verify" in refused(["results", "compact", "--json"])


def test_another_ending_is_refused(store: Store, refused: Refused) -> None:
    assert "ends in .csv, .parquet, .json" in refused(["results", "export", "x.txt", "--results", "out"])


def test_large_folders_are_joined_to_parts_that_fit_into_memory(store: Store, monkeypatch) -> None:
    monkeypatch.setattr("zcbench.bench.results.holdings.JOINED_ROWS", 2)
    assert run("compact") == 0
    assert len(list(filter(is_part, store.scores.rglob("*")))) == 3
    shutil.copytree("out", "copy")
    assert all(parts.check(part).num_rows for part in Store(Path("copy")).parts())


def test_faults_are_a_list_in_json(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    part = next(path for path in sorted(Path("out/scores").rglob("*.parquet")) if is_part(path))
    part.write_bytes(part.read_bytes()[:-9])
    assert run("verify", "--json") == 1
    (fault,) = json.loads(capsys.readouterr().out)
    assert part.name in fault
