from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import asdict, astuple, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from zcbench.bench.scoring.store import FORMAT, KEY, Row, Store, Writer
from zcbench.errors import ResultsError

ROW = Row(
    space="nb201",
    architecture="|nor_conv_3x3~0|+|none~0|none~1|+|none~0|none~1|none~2|",
    dataset="cifar10",
    batch_hash="0123456789abcdef",
    batch_size=16,
    seed=0,
    proxy="snip",
    version=1,
    protocol="N=5",
    device="cpu",
    value=1.5,
    status="ok",
    message="",
    wall_s=0.25,
    peak_mib=float("nan"),
)
VALUES = [0.1 + 0.2, -0.0, 5e-324, -1.7976931348623157e308, float("nan"), float("inf"), float("-inf")]

# Every add is acknowledged on standard output, so that the parent knows what must not be lost.
CHILD = """
import itertools, sys
from dataclasses import replace
from pathlib import Path
from zcbench.bench.scoring.store import Row, Writer

folder, row, count = Path(sys.argv[1]), Row(**eval(sys.argv[2], {"nan": float("nan")})), int(sys.argv[3])
with Writer(folder / "scores", join_every=3) as writer:
    for seed in itertools.islice(itertools.count(), count or None):
        writer.add([replace(row, seed=seed, batch_size=size, value=seed / size) for size in (3, 7)])
        print(seed, flush=True)
"""

KILLED_WHILE_CREATING = """
import os, signal, sys
from pathlib import Path
from zcbench.bench.scoring.store import Store

os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
Store(Path(sys.argv[1])).create()
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    created = Store(tmp_path / "out")
    created.create()
    return created


def rows(count: int) -> list[Row]:
    return [replace(ROW, seed=seed, value=VALUES[seed % len(VALUES)]) for seed in range(count)]


def bits(values: list[float] | pd.Series[float]) -> list[int]:
    # Equality would take -0.0 for 0.0 and no NaN for itself.
    return np.asarray(values, dtype=np.float64).view(np.int64).tolist()


def assert_holds(store: Store, expected: list[Row]) -> None:
    found = store.read().sort_values(list(KEY), ignore_index=True)
    wanted = pd.DataFrame([asdict(row) for row in expected]).sort_values(list(KEY), ignore_index=True)
    pd.testing.assert_frame_equal(found, wanted, check_exact=True, check_dtype=False)
    assert bits(found["value"]) == bits(wanted["value"])


def refusal(read: object, *named: object) -> str:
    assert callable(read)
    with pytest.raises(ResultsError) as caught:
        read()
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    for name in named:
        assert str(name) in message
    return message


def child(folder: Path, row: Row, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(folder), repr(asdict(row)), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def child_rows(row: Row, seeds: range) -> list[Row]:
    return [replace(row, seed=seed, batch_size=size, value=seed / size) for seed in seeds for size in (3, 7)]


def test_rows_come_back_exactly(store: Store) -> None:
    texts = ["", "Kätzchen", "two\nlines", '"quoted", comma', "\x00"]
    written = [replace(row, message=texts[row.seed % len(texts)], wall_s=row.value) for row in rows(len(VALUES))]
    with store.writer() as writer:
        writer.add(written)
    assert_holds(store, written)
    assert bits(store.read().sort_values("seed")["wall_s"]) == bits(VALUES)


def test_keys_are_all_fields_but_the_last_five(store: Store) -> None:
    with store.writer() as writer:
        writer.add(rows(4))
    assert KEY[-1] == "device"
    assert store.keys() == {astuple(row)[:-5] for row in rows(4)}


@pytest.mark.parametrize("status", ["error", "out_of_memory"])
def test_an_attempt_that_failed_is_no_score(store: Store, status: str) -> None:
    """Before: a network that had hit a limit of memory once stayed `out_of_memory` for ever."""
    failed = replace(ROW, value=float("nan"), status=status, message="no memory")
    other = replace(ROW, proxy="zen")
    with store.writer() as writer:
        writer.add([failed, other])
        assert store.keys() == {astuple(other)[:-5]}
        assert_holds(store, [failed, other])
        writer.add([replace(failed, message="again")])
        assert len(store.read()) == 2
        writer.add([ROW])
    assert_holds(store, [ROW, other])
    assert store.keys() == {astuple(ROW)[:-5], astuple(other)[:-5]}


def test_files_of_other_systems_do_not_matter(store: Store) -> None:
    with store.writer() as writer:
        writer.add([ROW])
    for name in ("._part.parquet", ".DS_Store", "scores/._a.parquet", "scores/.DS_Store", "scores/Thumbs.db"):
        (store.folder / name).write_bytes(b"\x00\x05")
    manifest = store.folder / "zcbench.json"
    manifest.write_bytes(b"\xef\xbb\xbf" + manifest.read_bytes())
    assert_holds(Store(store.folder), [ROW])
    fresh = store.folder.parent / "fresh"
    fresh.mkdir()
    (fresh / ".DS_Store").touch()
    Store(fresh).create()


def test_an_empty_store_has_columns_and_no_keys(store: Store) -> None:
    assert list(store.read().columns) == list(asdict(ROW))
    assert store.keys() == set()


def test_names_of_folders_are_no_columns(tmp_path: Path) -> None:
    store = Store(tmp_path / "seed=99" / "proxy=zen")
    store.create()
    with store.writer() as writer:
        writer.add([ROW])
    assert_holds(Store(store.folder), [ROW])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 10])
def test_joining_loses_and_changes_nothing(store: Store, count: int) -> None:
    with Writer(store.folder / "scores", join_every=3) as writer:
        for done, row in enumerate(rows(count), start=1):
            writer.add([row])
            assert len(store.parts()) <= 3
            assert_holds(store, rows(done))
    assert len(store.parts()) == 1
    assert_holds(store, rows(count))


def test_a_writer_joins_only_its_own_parts(store: Store) -> None:
    with store.writer() as other:
        other.add([replace(ROW, proxy="zen")])
    (foreign,) = store.parts()
    before = foreign.read_bytes()
    with Writer(store.folder / "scores", join_every=2) as writer:
        for row in rows(5):
            writer.add([row])
    assert foreign.read_bytes() == before
    assert_holds(store, [replace(ROW, proxy="zen"), *rows(5)])


def test_parts_are_joined_even_when_a_run_fails(store: Store) -> None:
    def fail() -> None:
        with store.writer() as writer:
            writer.add([rows(2)[0]])
            writer.add([rows(2)[1]])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert len(store.parts()) == 1
    assert_holds(store, rows(2))


@pytest.mark.parametrize("value", VALUES)
def test_equal_duplicates_are_read_once(store: Store, value: float) -> None:
    row = replace(ROW, value=value)
    for wall in (0.25, 99.0):
        store.writer().add([replace(row, wall_s=wall)])
    assert len(store.read()) == 1
    assert bits(store.read()["value"]) == bits([value])
    assert store.keys() == {astuple(row)[:-5]}


@pytest.mark.parametrize(
    "values", [(1.5, 1.5000000000000002), (float("nan"), 1.5), (1.5, float("nan")), (float("inf"), float("-inf"))]
)
def test_different_duplicates_are_refused(store: Store, values: tuple[float, float]) -> None:
    store.writer().add(rows(3))
    for value in values:
        store.writer().add([replace(ROW, seed=7, value=value)])
    message = refusal(store.read, store.folder, ROW.architecture, "'snip'", "'seed': 7")
    assert "np." not in message


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999])
def test_truncated_parts_are_refused(store: Store, share: float) -> None:
    store.writer().add(rows(20))
    (part,) = store.parts()
    whole = part.read_bytes()
    part.write_bytes(whole[: int(len(whole) * share)])
    refusal(store.read, part)


@pytest.mark.parametrize("content", [b"value\n1.5\n" * 100, b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_files_that_are_no_parquet_are_refused(store: Store, content: bytes) -> None:
    part = store.folder / "scores" / "notes.parquet"
    part.write_bytes(content)
    refusal(store.read, part)


def test_a_folder_in_place_of_a_part_is_refused(store: Store) -> None:
    part = store.folder / "scores" / "notes.parquet"
    part.mkdir()
    refusal(store.read, part)


def rewritten(store: Store, metadata: dict[bytes, bytes] | None, drop: str = "", texts: str = "") -> Path:
    table = pa.Table.from_pylist([asdict(ROW)])
    if drop:
        table = table.drop_columns([drop])
    if texts:
        table = table.set_column(table.column_names.index(texts), texts, pa.array(["much"]))
    part = store.folder / "scores" / "part.parquet"
    pq.write_table(table.replace_schema_metadata(metadata), part)
    return part


@pytest.mark.parametrize("change", [{"drop": "value"}, {"drop": "architecture"}, {"texts": "value"}])
def test_parts_with_other_columns_are_refused(store: Store, change: dict[str, str]) -> None:
    part = rewritten(store, {b"zcbench.format": str(FORMAT).encode()}, **change)
    refusal(store.read, part, "columns")


@pytest.mark.parametrize(
    "metadata",
    [None, {}] + [{b"zcbench.format": text} for text in (str(FORMAT + 1).encode(), b"", b"-1", b"\xff", "²".encode())],
)
def test_parts_of_another_format_are_refused(store: Store, metadata: dict[bytes, bytes] | None) -> None:
    refusal(store.read, rewritten(store, metadata), "format")


def test_a_newer_manifest_is_refused(store: Store) -> None:
    (store.folder / "zcbench.json").write_text(json.dumps({"format": FORMAT + 1, "zcbench": "9.0"}))
    refusal(lambda: Store(store.folder), store.folder, f"format {FORMAT + 1}", "upgrade")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"null", b"\xff\xfe", b'{"zcbench": "0.1.0"}']
    + [b'{"format": %s}' % value for value in (b"null", b'"new"', b"[]", b"NaN", b"Infinity")],
)
def test_a_torn_manifest_is_refused(store: Store, content: bytes) -> None:
    manifest = store.folder / "zcbench.json"
    manifest.write_bytes(content)
    refusal(lambda: Store(store.folder), manifest)


def test_a_folder_of_someone_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    refusal(lambda: Store(tmp_path), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("below", [".", "out", "deep/out"])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("precious")
    folder = tmp_path / "file" / below
    refusal(Store(folder).create, folder)
    assert (tmp_path / "file").read_text() == "precious"


def test_nothing_is_made_before_create(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "out")
    assert store.parts() == []
    assert store.read().empty
    assert store.keys() == set()
    store.writer()
    assert list(tmp_path.iterdir()) == []


def test_creating_again_changes_nothing(store: Store) -> None:
    store.writer().add(rows(3))
    before = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    Store(store.folder).create()
    assert {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()} == before


def test_killed_while_creating_can_be_taken_up(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_WHILE_CREATING, str(tmp_path / "out")]
    assert subprocess.run(command, check=False).returncode == -9
    store = Store(tmp_path / "out")
    store.create()
    store.writer().add(rows(2))
    assert_holds(Store(store.folder), rows(2))


def test_leftovers_of_a_killed_writer_are_ignored(store: Store) -> None:
    store.writer().add(rows(3))
    (part,) = store.parts()
    part.with_name(f".{part.name}.0123abcd").write_bytes(part.read_bytes()[:100])
    part.with_name(".0123abcd").touch()
    assert store.parts() == [part]
    assert_holds(Store(store.folder), rows(3))


def test_parts_joined_while_they_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = store.writer()
    for row in rows(3):
        writer.add([row])
    stale = store.parts()
    writer.close()
    listed = Store.parts
    # A reader lists the parts, then a writer joins them, then the reader opens them.
    answers = [stale]
    monkeypatch.setattr(Store, "parts", lambda self: answers.pop() if answers else listed(self))
    assert_holds(store, rows(3))


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_every_part_holds_whole_rows(store: Store, seed: int) -> None:
    moment = random.Random(seed).uniform(0.0, 0.3)
    with child(store.folder, ROW, 0) as process:
        assert process.stdout is not None
        done = [process.stdout.readline()]
        time.sleep(moment)
        process.kill()
        done += process.stdout.read().splitlines()
    assert process.returncode == -9
    for part in store.parts():
        table = pq.ParquetFile(part).read()
        assert table.num_rows % 2 == 0
        assert sum(column.null_count for column in table.columns) == 0
    found = Store(store.folder).read()
    # What was acknowledged is there; the add that was under way may be there too, whole.
    assert len(found) // 2 in {len(done), len(done) + 1}, moment
    assert_holds(store, child_rows(ROW, range(len(found) // 2)))


def test_two_writers_at_once_do_not_disturb_each_other(store: Store) -> None:
    other = replace(ROW, proxy="zen")
    with child(store.folder, ROW, 60) as first, child(store.folder, other, 60) as second:
        for process in (first, second):
            assert process.stdout is not None
            assert len(process.stdout.read().splitlines()) == 60
    assert (first.returncode, second.returncode) == (0, 0)
    assert len(store.parts()) == 2
    assert_holds(store, child_rows(ROW, range(60)) + child_rows(other, range(60)))
