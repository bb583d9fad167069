from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from zcbench.bench.results.board import boards
from zcbench.bench.results.ranking import select, summarise
from zcbench.bench.scoring import migration
from zcbench.bench.scoring.store import Store
from zcbench.errors import ResultsError

FORMAT_1 = Path(__file__).parent / "format1"

#: The n-th call of a function that changes the folder is the last thing that the process does.
KILLED = """
import os, signal, sys
from pathlib import Path
from zcbench.bench.scoring.store import Store

left = [int(sys.argv[2])]

def until(function):
    def counted(*given, **options):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return function(*given, **options)
    return counted

Path.replace, Path.unlink = until(Path.replace), until(Path.unlink)
Store(Path(sys.argv[1])).create()
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder that zcbench of format 1 wrote; the README beside it says how."""
    folder = tmp_path / "old"
    shutil.copytree(FORMAT_1, folder, ignore=shutil.ignore_patterns("README.md"))
    return folder


def former(folder: Path) -> pd.DataFrame:
    (part,) = (folder / "scores").glob("*.parquet")
    return pq.ParquetFile(part).read().to_pandas()


def assert_same(rows: pd.DataFrame, before: pd.DataFrame) -> None:
    said = ["architecture", "proxy", "seed", "value", "status", "message", "wall_s", "peak_mib"]
    found, wanted = (of[said].sort_values(["architecture", "proxy"], ignore_index=True) for of in (rows, before))
    pd.testing.assert_frame_equal(found, wanted, check_exact=True, check_dtype=False)


def test_a_folder_of_format_1_keeps_its_scores_and_learns_its_machine(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = former(old)
    Store(old).create()
    (line,) = capsys.readouterr().err.splitlines()
    assert "1 parts of format 1" in line
    assert "cpu AVX2, torch 2.13.0" in line
    assert list((old / "scores").glob("*.parquet")) == []
    assert json.loads((old / "zcbench.json").read_text())["format"] == 2
    (board,) = boards(old)
    assert (board.recipe.device, board.recipe.torch) == ("cpu AVX2", "2.13.0")
    rows = Store(old).rows(board.recipe)
    assert_same(rows, before)
    assert len(rows) == 18
    assert Store(old).missing(board.recipe, 1) == {}
    assert {r.proxy for r in summarise(board.recipe, select(Store(old), board.recipe))} == {"snip", "naswot", "params"}


def test_a_reader_brings_it_up_too(old: Path) -> None:
    before = former(old)
    (board,) = boards(old)
    assert_same(Store(old).rows(board.recipe), before)


def test_creating_again_changes_nothing(old: Path) -> None:
    Store(old).create()
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    Store(old).create()
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("calls", range(7))
def test_killed_at_any_step_it_can_be_taken_up(old: Path, calls: int) -> None:
    shutil.copytree(old, old.with_name("again"))
    command = [sys.executable, "-c", KILLED, str(old), str(calls)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode in {-9, 0}, done.stderr
    (board,) = boards(old)
    rows = Store(old).rows(board.recipe)
    assert_same(rows, former(old.with_name("again")))
    assert list(rows["attempts"]) == [0] * 18
    assert list((old / "scores").glob("*.parquet")) == []


@pytest.mark.parametrize("change", ["another cpu", "another torch", "no record", "no environment"])
def test_rows_whose_machine_is_not_known_are_kept_and_never_used_again(
    old: Path, change: str, every_row: Callable[[Path], pd.DataFrame]
) -> None:
    (path,) = (old / "runs").glob("*.json")
    record = json.loads(path.read_text())
    if change == "no record":
        path.unlink()
    elif change == "no environment":
        path.write_text(json.dumps({name: value for name, value in record.items() if name != "environment"}))
    else:
        other = record["environment"] | {"another cpu": {"cpu": "AVX512"}, "another torch": {"torch": "2.9"}}[change]
        (old / "runs" / "x.json").write_text(json.dumps(record | {"environment": other}))
    before = former(old)
    Store(old).create()
    rows = every_row(old)
    assert_same(rows, before)
    assert set(rows["device"]) == {"cpu"}
    assert set(rows["torch"]) == {migration.UNKNOWN}
    if change.startswith("another"):
        (board,) = boards(old)
        assert (board.recipe.device, board.recipe.torch) == ("cpu", migration.UNKNOWN)
        assert_same(Store(old).rows(board.recipe), before)


@pytest.mark.parametrize(
    ("former_text", "cpu", "now"),
    [
        ("cpu", "AVX2", "cpu AVX2"),
        ("cpu float64", "AVX2", "cpu AVX2 float64"),
        ("cuda", "AVX2", "cuda"),
        ("cpu", "", "cpu"),
    ],
)
def test_a_device_gets_the_instructions_of_its_cpu(former_text: str, cpu: str, now: str) -> None:
    assert migration._device(former_text, cpu) == now


def test_a_folder_that_cannot_be_written_says_what_to_do(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(ResultsError, match="have format 1 and cannot be written: copy the folder") as caught:
        boards(old)
    assert len(str(caught.value).splitlines()) == 1
    assert len(former(old)) == 18


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_torn_part_of_format_1_is_named_and_kept(old: Path, share: float) -> None:
    (part,) = (old / "scores").glob("*.parquet")
    whole = part.read_bytes()
    part.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ResultsError, match=f"{part.name} is torn"):
        Store(old).create()
    part.write_bytes(whole)
    Store(old).create()
    assert len(Store(old).rows(boards(old)[0].recipe)) == 18


@pytest.mark.parametrize("drop", ["value", "status"])
def test_a_part_of_format_1_with_other_columns_is_named(old: Path, drop: str) -> None:
    (part,) = (old / "scores").glob("*.parquet")
    pq.write_table(pq.ParquetFile(part).read().drop_columns([drop]), part)
    with pytest.raises(ResultsError, match=f"{part.name} has other columns"):
        Store(old).create()


def test_a_part_of_this_format_out_of_its_folder_is_named(old: Path) -> None:
    store = Store(old)
    store.create()
    (part,) = store.parts()
    moved = part.rename(old / "scores" / part.name)
    with pytest.raises(ResultsError, match=f"{moved.name} has format 2, expected 1 here: move it back"):
        Store(old).create()
    assert moved.exists()


def test_values_are_the_same_bits(old: Path) -> None:
    before = former(old).sort_values(["architecture", "proxy"])["value"].to_numpy()
    Store(old).create()
    rows = Store(old).rows(boards(old)[0].recipe).sort_values(["architecture", "proxy"])
    assert np.array_equal(rows["value"].to_numpy().view(np.int64), before.view(np.int64))
    assert os.listdir(old / "scores") == ["space=nb201"]  # noqa: PTH208
