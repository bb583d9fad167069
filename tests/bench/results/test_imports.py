from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zcbench
from zcbench.bench.results.holdings import export, faults
from zcbench.bench.results.imports import take
from zcbench.bench.scoring.parts import KEY
from zcbench.bench.scoring.store import Store
from zcbench.errors import ResultsError

from ...rows import ROW

BOARD = Path(zcbench.__file__).parent / "docs" / "board"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "out")
    made.create()
    rows = [replace(ROW, seed=seed, dataset=dataset) for seed in range(3) for dataset in ("cifar10", "cifar100")]
    made.writer().add([*rows, replace(ROW, seed=9, value=float("nan"), status="nan", message="not a number")])
    return made


@pytest.fixture
def file(store: Store, tmp_path: Path) -> Path:
    export(store, tmp_path / "scores.parquet", {})
    return tmp_path / "scores.parquet"


def every(store: Store, path: Path) -> pd.DataFrame:
    export(store, path, {})
    return pd.read_parquet(path)


def changed(file: Path, **columns: object) -> Path:
    """Write a file whose first row has other cells."""
    frame = pd.read_parquet(file)
    for name, value in columns.items():
        frame[name] = frame[name].astype(object)
        frame.loc[0, name] = value
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, file)
    return file


def test_what_was_exported_is_there_again(store: Store, file: Path, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    assert take(other, file) == 7
    assert take(other, file) == 7  # again: equal rows are one
    pd.testing.assert_frame_equal(every(other, tmp_path / "again.parquet"), pd.read_parquet(file))
    assert list(faults(other)) == []
    assert [path.name for path in (tmp_path / "other").iterdir() if path.name.startswith(".")] == []


#: An import that stops before its parts are where they belong, until it is killed.
_STOPS = """
import sys, time
from pathlib import Path
from zcbench.bench.results import imports
from zcbench.bench.scoring.store import Store

def stop(*_):
    print("stopped", flush=True)
    time.sleep(600)

imports._look = stop
imports.take(Store(Path(sys.argv[1])), Path(sys.argv[2]))
"""


def test_what_a_killed_import_left_goes_with_the_next(store: Store, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    stopped = [sys.executable, "-c", _STOPS, str(other), str(file)]
    again = [sys.executable, "-m", "zcbench", "results", "import", str(file), "--results", str(other)]
    with subprocess.Popen(stopped, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout
        assert first.stdout.readline() == "stopped\n"
        (left,) = other.glob(".import-*")
        with subprocess.Popen(again, stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr
            # What an import that is alive has made is not taken from it.
            assert "waiting until another import" in second.stderr.readline()
            assert list(left.rglob("*.parquet"))
            os.kill(first.pid, signal.SIGKILL)
            second.communicate()
        assert second.returncode == 0
    assert list(other.glob(".import-*")) == []
    pd.testing.assert_frame_equal(every(Store(other), tmp_path / "again.parquet"), pd.read_parquet(file))


def test_a_leaderboard_holds_its_scores(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    rows = pd.read_parquet(BOARD / "scores.parquet")
    assert take(store, BOARD) == len(rows)
    found = every(store, tmp_path / "again.parquet").sort_values(list(KEY), ignore_index=True)
    expected = rows[found.columns].sort_values(list(KEY), ignore_index=True)
    pd.testing.assert_frame_equal(found, expected)


def test_another_value_of_a_known_key_adds_nothing(store: Store, file: Path, tmp_path: Path) -> None:
    before = every(store, tmp_path / "before.parquet")
    with pytest.raises(ResultsError, match=r"different values for one key, 1\.5 and 7\.0 in .*scores\.parquet"):
        take(store, changed(file, value=7.0))
    pd.testing.assert_frame_equal(every(store, tmp_path / "after.parquet"), before)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"status": "splendid"}, r"expected a status of .*got 'splendid'"),
        ({"message": "x" * 30_000}, "expected texts of at most 20,000 bytes"),
        ({"proxy": None}, "column proxy: expected no empty cell"),
        ({"seed": 0.5}, "has other columns"),
        ({"value": math.inf}, "column value: expected what zcbench writes, got impossible values"),
        ({"version": -5}, "column version: expected what zcbench writes"),
        ({"wall_s": -1.0}, "column wall_s: expected what zcbench writes"),
        ({"proxy": ""}, "column proxy: expected what zcbench writes"),
    ],
)
def test_what_zcbench_does_not_write_is_refused(
    columns: dict[str, object], message: str, file: Path, tmp_path: Path
) -> None:
    if "seed" in columns:
        pq.write_table(pa.Table.from_pandas(pd.read_parquet(file).assign(**columns), preserve_index=False), file)
    else:
        changed(file, **columns)
    other = Store(tmp_path / "other")
    with pytest.raises(ResultsError, match=message) as error:
        take(other, file)
    assert "\n" not in str(error.value)
    assert other.parts() == []


def test_files_of_others_are_refused(store: Store, file: Path, tmp_path: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(ResultsError, match="expected a Parquet file of zcbench results export"):
        take(store, file)
    with pytest.raises(ResultsError, match="export a results folder first"):
        take(store, tmp_path / "none.parquet")
    with pytest.raises(ResultsError, match="export a results folder first"):
        take(store, tmp_path / "out")  # a results folder
    pq.write_table(pa.table({"space": ["nb201"]}), file)
    with pytest.raises(ResultsError, match="has no column architecture"):
        take(store, file)


def test_a_name_of_a_space_leads_nowhere_else(file: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(file).assign(space="../../evil")
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), file)
    other = Store(tmp_path / "other")
    take(other, file)
    assert all(part.is_relative_to(other.scores) for part in other.parts())
    assert not (tmp_path / "evil").exists()
