from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
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
from zcbench.bench.results.holdings import faults
from zcbench.bench.results.ranking import select
from zcbench.bench.scoring import parts, questions, writer
from zcbench.bench.scoring.parts import ATTEMPTS, FORMAT, KEY, SCHEMA, STATUSES, Row, place
from zcbench.bench.scoring.store import Store
from zcbench.bench.scoring.writer import Writer
from zcbench.bench.study.recipe import Recipe, Work
from zcbench.errors import IncompleteError, ResultsError

from ...rows import ROW

VALUES = [0.1 + 0.2, -0.0, 5e-324, -1.7976931348623157e308, float("nan"), float("inf"), float("-inf")]

# Every add is acknowledged on standard output, so that the parent knows what must not be lost.
CHILD = """
import itertools, sys
from dataclasses import replace
from pathlib import Path
from zcbench.bench.scoring.parts import Row
from zcbench.bench.scoring.writer import Writer

folder, row, count = Path(sys.argv[1]), Row(**eval(sys.argv[2], {"nan": float("nan")})), int(sys.argv[3])
with Writer(folder / "scores", fan_out=3) as writer:
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


def recipe_of(expected: list[Row]) -> Recipe:
    """The recipe whose keys are those of the rows, which are every combination of their networks and items."""
    first = expected[0]
    work: dict[tuple[int, int], dict[str, None]] = {}
    for row in expected:
        work.setdefault((row.seed, row.batch_size), {})[row.proxy] = None
    return Recipe(
        space=first.space,
        dataset=first.dataset,
        truth="truth",
        label="",
        protocol=first.protocol,
        device=first.device,
        torch=first.torch,
        accuracies=dict.fromkeys([row.architecture for row in expected], 1.0),
        work=tuple(Work(seed, size, tuple(names)) for (seed, size), names in work.items()),
        batches={(row.batch_size, row.seed): row.batch_hash for row in expected},
        versions={row.proxy: row.version for row in expected},
        lower=(),
        aggregates=(),
        batch_sizes=(),
        resamples=1,
    )


def test_the_networks_of_a_space_and_data_set_are_listed_once(store: Store) -> None:
    with store.writer() as writer:
        for name in ("b", "a"):
            writer.add([replace(row, architecture=name) for row in rows(2)])
        writer.add([replace(ROW, architecture="c", dataset="another")])
    assert store.networks(ROW.space, ROW.dataset) == ["a", "b"]
    assert store.networks(ROW.space, "none") == []


def bits(values: list[float] | pd.Series[float]) -> list[int]:
    # Equality would take -0.0 for 0.0 and no NaN for itself.
    return np.asarray(values, dtype=np.float64).view(np.int64).tolist()


def assert_holds(store: Store, expected: list[Row]) -> None:
    found = store.rows(recipe_of(expected))[list(asdict(ROW))]
    wanted = pd.DataFrame([asdict(row) for row in expected]).sort_values(list(KEY), ignore_index=True)
    pd.testing.assert_frame_equal(found, wanted, check_exact=True, check_dtype=False)
    assert bits(found["value"]) == bits(wanted["value"])


def read(store: Store) -> pd.DataFrame:
    return store.rows(recipe_of([ROW]))


def put(
    store: Store, table: pa.Table, metadata: dict[bytes, bytes] | None = SCHEMA.metadata, **options: object
) -> Path:
    """Write a part of other content under a name that fits it, as a program that means harm would."""
    buffer = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), buffer, **options)
    content = buffer.getvalue().to_pybytes()
    folder = place(store.scores, ROW.space, ROW.dataset)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"0-{'0' * 32}-{hashlib.sha256(content).hexdigest()[:32]}.parquet"
    part.write_bytes(content)
    return part


def table(*given: Row) -> pa.Table:
    return pa.Table.from_pylist([asdict(row) | {"written_ns": 1} for row in given or [ROW]], schema=SCHEMA)


def refusal(ask: object, *named: object) -> str:
    assert callable(ask)
    with pytest.raises(ResultsError) as caught:
        ask()
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
    with store.writer() as opened:
        opened.add(written)
    assert_holds(store, written)
    assert bits(store.rows(recipe_of(written))["wall_s"]) == bits(VALUES)


def test_the_key_is_all_fields_but_the_last_five_and_names_the_machine() -> None:
    assert KEY[-2:] == ("device", "torch")
    (key,) = recipe_of([ROW]).keys()
    assert key == astuple(ROW)[:-5]


@pytest.mark.parametrize("change", [{"device": "cpu AVX512"}, {"torch": "2.14.0"}, {"device": "cpu AVX2 float64"}])
def test_another_machine_may_give_another_value(store: Store, change: dict[str, str]) -> None:
    """Before: two sets of instructions that scored one network made the whole folder unreadable."""
    other = replace(ROW, value=1.5000000000000002, **change)
    for row in (ROW, other):
        store.writer().add([row])
    assert_holds(store, [ROW])
    assert_holds(store, [other])


def test_a_class_of_devices_takes_the_scores_of_all_its_machines(store: Store) -> None:
    two = replace(ROW, device="cpu AVX512", value=1.25)
    extra = [
        replace(two, seed=1),
        replace(ROW, seed=2, status="error", value=math.nan),
        replace(two, seed=2),
        replace(ROW, device="cpu AVX2 float64", value=9.0),
        replace(ROW, device="cuda NVIDIA H200", value=8.0),
    ]
    store.writer().add([ROW, two, *extra])
    recipe = recipe_of([replace(ROW, device="cpu", seed=seed) for seed in (0, 1, 2)])
    found = store.rows(recipe)
    # Of two scores the first machine by name counts; a score comes before the attempt of another machine.
    assert found[["seed", "device", "value"]].to_numpy().tolist() == [
        [0, "cpu AVX2", 1.5],
        [1, "cpu AVX512", 1.25],
        [2, "cpu AVX512", 1.25],
    ]
    assert store.missing(recipe, tries=3) == {}
    float64 = recipe_of([replace(ROW, device="cpu float64")])
    assert store.rows(float64)["value"].tolist() == [9.0]
    # One machine still has one score for one key.
    store.writer().add([replace(two, value=2.0)])
    with pytest.raises(ResultsError, match=r"different values for one key, 1\.25 and 2\.0"):
        store.rows(recipe)


@pytest.mark.parametrize("status", sorted(ATTEMPTS))
def test_an_attempt_that_failed_is_no_score(store: Store, status: str) -> None:
    """Before: a network that had hit a limit of memory once stayed `out_of_memory` for ever."""
    failed = replace(ROW, value=float("nan"), status=status, message="first")
    other = replace(ROW, proxy="zen")
    recipe = recipe_of([ROW, other])
    with store.writer() as opened:
        opened.add([failed, other])
        assert_holds(store, [failed, other])
        assert store.missing(recipe, tries=2) == {ROW.architecture: (Work(0, 16, ("snip",)),)}
        assert store.missing(recipe, tries=1) == {}
        opened.add([replace(failed, message="again")])
        assert_holds(store, [replace(failed, message="again"), other])
        assert list(store.rows(recipe)["attempts"]) == [2, 0]
        assert store.missing(recipe, tries=2) == {}
        assert store.missing(recipe, tries=3)
        opened.add([ROW])
        assert store.missing(recipe, tries=1) == {}
    assert_holds(store, [ROW, other])
    assert list(store.rows(recipe)["attempts"]) == [2, 0]


def test_an_attempt_that_a_killed_join_left_twice_counts_once(store: Store) -> None:
    opened = store.writer()
    opened.add([replace(ROW, status="error", value=float("nan"))])
    (part,) = store.parts()
    part.with_name(part.name.replace("0-", "1-", 1)).write_bytes(part.read_bytes())
    assert list(store.rows(recipe_of([ROW]))["attempts"]) == [1]


def test_missing_work_is_in_the_order_of_the_recipe(store: Store) -> None:
    grid = [
        replace(ROW, architecture=a, seed=s, proxy=p)
        for a, s, p in itertools.product(["c", "a", "b"], [1, 0], ["zen", "snip", "az"])
    ]
    kept = [row for row in grid if (row.architecture, row.seed, row.proxy) in {("c", 1, "snip"), ("a", 0, "zen")}]
    kept += [row for row in grid if row.architecture == "b"]
    recipe = recipe_of(grid)
    assert list(store.missing(recipe, 1)) == ["c", "a", "b"]
    store.writer().add(kept)
    everything = ("zen", "snip", "az")
    assert store.missing(recipe, 1) == {
        "c": (Work(1, 16, ("zen", "az")), Work(0, 16, everything)),
        "a": (Work(1, 16, everything), Work(0, 16, ("snip", "az"))),
    }
    assert list(store.missing(recipe, 1)) == ["c", "a"]


def test_rows_are_in_the_order_of_their_keys(store: Store) -> None:
    grid = [
        replace(ROW, architecture=a, seed=s, proxy=p, batch_hash=f"h{9 - s}")
        for a, s, p in itertools.product(["c", "a", "b"], [1, 0], ["zen", "snip"])
    ]
    random.Random(0).shuffle(grid)
    with Writer(store.scores, fan_out=2) as opened:
        for row in grid:
            opened.add([row])
    found = store.rows(recipe_of(grid))[list(KEY)]
    assert list(found.itertuples(index=False, name=None)) == sorted(astuple(row)[:-5] for row in grid)


def test_a_score_that_is_missing_is_named(store: Store) -> None:
    """Before: a missing row became a NaN, and the network looked like a bad one."""
    recipe = recipe_of(rows(3))
    store.writer().add(rows(2))
    assert len(store.rows(recipe)) == 2
    with pytest.raises(IncompleteError, match=r"1 of 3 scores are missing, first snip of .* seed 2: zcbench run"):
        select(store, recipe)
    store.writer().add([replace(rows(3)[2], status="crashed", value=float("nan"))])
    assert list(select(store, recipe)["status"]) == ["ok", "ok", "crashed"]


def test_files_of_other_systems_do_not_matter(store: Store) -> None:
    with store.writer() as opened:
        opened.add([ROW])
    (part,) = store.parts()
    inner = str(part.parent.relative_to(store.folder))
    for name in ("._part.parquet", ".DS_Store", "scores/._a.parquet", "scores/.DS_Store", f"{inner}/._a.parquet"):
        (store.folder / name).write_bytes(b"\x00\x05")
    (part.parent / "Thumbs.db").touch()
    manifest = store.folder / "zcbench.json"
    manifest.write_bytes(b"\xef\xbb\xbf" + manifest.read_bytes())
    assert_holds(Store(store.folder), [ROW])
    fresh = store.folder.parent / "fresh"
    fresh.mkdir()
    (fresh / ".DS_Store").touch()
    Store(fresh).create()


@pytest.mark.parametrize("name", ["{} - Copy.parquet", "{}.PARQUET"])
def test_copies_of_a_part_are_parts(store: Store, name: str) -> None:
    store.writer().add([ROW])
    (part,) = store.parts()
    part.rename(part.with_name(name.format(part.stem)))
    assert_holds(store, [ROW])


@pytest.mark.parametrize("folder", ["seed=99/proxy=zen", "out[1]", "out*", "it's"])
def test_names_of_folders_mean_nothing(tmp_path: Path, folder: str) -> None:
    store = Store(tmp_path / folder)
    store.create()
    with store.writer() as opened:
        opened.add([ROW])
    assert_holds(Store(store.folder), [ROW])


@pytest.mark.parametrize("name", ["..", "../../x", "a/b", "it's", "50%", "a=b", "*", "ß"])
def test_names_of_spaces_stay_in_the_folder(store: Store, name: str) -> None:
    row = replace(ROW, space=name, dataset=name)
    store.writer().add([row, ROW])
    assert len(store.parts()) == 2
    assert all(part.resolve().is_relative_to(store.scores.resolve()) for part in store.parts())
    assert_holds(store, [row])
    assert_holds(store, [ROW])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 10, 27])
def test_joining_loses_and_changes_nothing(store: Store, count: int) -> None:
    with Writer(store.scores, fan_out=3) as opened:
        for done, row in enumerate(rows(count), start=1):
            opened.add([row])
            assert len(store.parts()) <= 2 * 4
            if done == count:
                assert_holds(store, rows(done))
    assert len(store.parts()) == 1
    assert_holds(store, rows(count))


def test_a_row_is_written_once_per_tier(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: the part of a run was written anew every 63 networks, a gigabyte for seven megabytes of scores."""
    written: list[int] = []
    write = parts.write
    monkeypatch.setattr(writer, "write", lambda f, t, tier: (written.append(len(t)), write(f, t, tier))[1])
    with Writer(store.scores, fan_out=4) as opened:
        for row in rows(4**3):
            opened.add([row])
    assert sum(written) == 4 * 4**3


def test_a_part_that_is_full_is_not_joined_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "JOINED_ROWS", 4)
    with Writer(store.scores, fan_out=2) as opened:
        for row in rows(11):
            opened.add([row])
    assert sorted(pq.ParquetFile(part).metadata.num_rows for part in store.parts()) == [3, 4, 4]
    assert_holds(store, rows(11))


def test_joined_rows_are_sorted_so_that_groups_hold_few_proxies(store: Store) -> None:
    grid = [replace(ROW, seed=s, proxy=p) for s, p in itertools.product(range(3), ["zen", "snip"])]
    with store.writer() as opened:
        for row in grid:
            opened.add([row])
    (part,) = store.parts()
    found = pq.ParquetFile(part).read().to_pandas()[["proxy", "seed"]]
    assert [tuple(row) for row in found.to_numpy()] == sorted((row.proxy, row.seed) for row in grid)


def test_a_writer_joins_only_its_own_parts(store: Store) -> None:
    with store.writer() as other:
        other.add([replace(ROW, proxy="zen")])
    (foreign,) = store.parts()
    before = foreign.read_bytes()
    with Writer(store.scores, fan_out=2) as opened:
        for row in rows(5):
            opened.add([row])
    assert foreign.read_bytes() == before
    assert_holds(store, rows(5))


def test_parts_are_joined_even_when_a_run_fails(store: Store) -> None:
    def fail() -> None:
        with store.writer() as opened:
            opened.add([rows(2)[0]])
            opened.add([rows(2)[1]])
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
    found = read(store)
    assert len(found) == 1
    assert bits(found["value"]) == bits([value])
    assert list(found["wall_s"]) == [0.25]  # the first that was written


@pytest.mark.parametrize(
    "values", [(1.5, 1.5000000000000002), (float("nan"), 1.5), (1.5, float("nan")), (float("inf"), float("-inf"))]
)
def test_different_duplicates_are_refused(store: Store, values: tuple[float, float]) -> None:
    store.writer().add(rows(3))
    first = store.parts()
    for value in values:
        store.writer().add([replace(ROW, seed=7, value=value)])
    recipe = recipe_of([*rows(3), replace(ROW, seed=7)])
    wrong = [part for part in store.parts() if part not in first]
    message = refusal(lambda: store.rows(recipe), *wrong, ROW.architecture, "'snip'", "'seed': 7")
    assert "np." not in message
    refusal(lambda: store.missing(recipe, 1), *wrong)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999])
def test_truncated_parts_are_refused(store: Store, share: float) -> None:
    store.writer().add(rows(20))
    (part,) = store.parts()
    whole = part.read_bytes()
    part.write_bytes(whole[: int(len(whole) * share)])
    refusal(lambda: read(store), part, "torn")


def test_a_part_with_any_other_byte_is_refused(store: Store) -> None:
    store.writer().add(rows(20))
    (part,) = store.parts()
    whole = part.read_bytes()
    for at in [*range(0, len(whole), 97), *range(len(whole) - 8, len(whole))]:
        part.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        refusal(lambda: parts.check(part), part, "torn")


@pytest.mark.parametrize("content", [b"value\n1.5\n" * 100, b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_files_that_are_no_parquet_are_refused(store: Store, content: bytes) -> None:
    part = put(store, table())
    part.write_bytes(content)
    refusal(lambda: read(store), part, "torn")
    named = part.with_name(f"0-{'0' * 32}-{hashlib.sha256(content).hexdigest()[:32]}.parquet")
    part.rename(named)
    refusal(lambda: read(store), named, "no Parquet file")


@pytest.mark.parametrize("kind", ["pipe", "link to nothing"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(store: Store, kind: str) -> None:
    store.writer().add(rows(3))
    (part,) = store.parts()
    strange = part.with_name(f"0-{'0' * 32}-{'0' * 32}.parquet")
    if kind == "pipe":
        os.mkfifo(strange)
    else:
        strange.symlink_to(store.folder / "absent")
    refusal(lambda: read(store), strange, "no regular file")
    assert [str(strange) in line for line in faults(store)] == [True]


def test_a_part_with_another_name_is_refused(store: Store) -> None:
    part = put(store, table())
    notes = part.rename(part.with_name("notes.parquet"))
    refusal(lambda: read(store), notes, "no name that zcbench gives")


@pytest.mark.parametrize("name", ["notes.parquet", f"0-{'0' * 32}-{'0' * 32}.parquet"])
def test_a_folder_in_place_of_a_part_is_refused(store: Store, name: str) -> None:
    part = put(store, table()).with_name(name)
    part.mkdir()
    refusal(lambda: read(store), part)


TABLES = {
    "no value": table().drop_columns(["value"]),
    "no architecture": table().drop_columns(["architecture"]),
    "no torch": table().drop_columns(["torch"]),
    "a text as value": table().set_column(11, "value", pa.array(["much"])),
    "one more": table().append_column("more", pa.array([1])),
    **{
        f"a null as {name}": table().set_column(i, name, pa.array([None], SCHEMA.types[i]))
        for i, name in enumerate(SCHEMA.names)
    },
}


@pytest.mark.parametrize("wrong", TABLES.values(), ids=TABLES)
def test_parts_with_other_columns_or_empty_cells_are_refused(store: Store, wrong: pa.Table) -> None:
    refusal(lambda: read(store), put(store, wrong), "columns")


@pytest.mark.parametrize(
    "metadata",
    [None, {}] + [{b"zcbench.format": text} for text in (str(FORMAT + 1).encode(), b"", b"-1", b"\xff", "²".encode())],
)
def test_parts_of_another_format_are_refused(store: Store, metadata: dict[bytes, bytes] | None) -> None:
    refusal(lambda: read(store), put(store, table(), metadata), "format")


def test_a_status_that_is_unknown_is_refused(store: Store) -> None:
    part = put(store, table(replace(ROW, status="fine")))
    refusal(lambda: read(store), part, "'fine'")


@pytest.mark.parametrize("name", ["architecture", "message", "torch"])
def test_a_text_that_is_too_long_is_refused(store: Store, name: str) -> None:
    part = put(store, table(replace(ROW, **{name: "x" * 20_001})))
    refusal(lambda: read(store), part, "20,001")


@pytest.mark.parametrize("change", [{"space": "nb101"}, {"dataset": "cifar100"}])
def test_rows_in_the_folder_of_another_data_set_are_refused(store: Store, change: dict[str, str]) -> None:
    part = put(store, table(replace(ROW, **change)))
    refusal(lambda: read(store), part, "move it back", *change.values())
    part.unlink()
    refusal(lambda: read(store), put(store, table(ROW, replace(ROW, **change))), "move it back")


def test_a_part_without_bounds_is_refused(store: Store) -> None:
    part = put(store, table(), write_statistics=False)
    refusal(lambda: read(store), part, "unknown ones")


@pytest.mark.parametrize(("limit", "most"), [("MOST_ROWS", 1), ("MOST_BYTES", 100)])
def test_a_part_over_a_limit_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    part = put(store, table(*rows(2)))
    monkeypatch.setattr(parts, limit, most)
    refusal(lambda: read(store), part, "expected at most")


def test_memory_that_runs_out_is_not_blamed_on_a_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.writer().add(rows(3))

    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    with monkeypatch.context() as patched:
        patched.setattr(pq, "ParquetFile", fail)
        message = refusal(lambda: read(store), "memory ran out")
        assert "torn" not in message
    monkeypatch.setattr(questions, "MEMORY_MIB", 1)
    many = [replace(row, architecture=f"{row.seed:0>200}", seed=0) for row in rows(20_000)]
    store.writer().add(many)
    assert "torn" not in refusal(lambda: store.rows(recipe_of(many)), "memory ran out")


def test_under_a_limit_of_the_system_memory_runs_out_and_no_part_is_torn(store: Store) -> None:
    store.writer().add([replace(row, architecture=f"{row.seed:0>200}", seed=0) for row in rows(1000)])
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom zcbench.bench.scoring.store import Store\n"
        "from zcbench.bench.scoring import parts\nimport duckdb, pandas\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_store import ROW, read\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[2]) << 20), -1))\n"
        "try:\n    read(Store(Path(sys.argv[1])))\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    )
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    for room in (1, 8, 64):
        command = [sys.executable, "-c", code, str(store.folder), str(room)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert "torn" not in done.stdout + done.stderr
        assert "delete" not in done.stdout


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
    assert read(store).empty
    assert list(read(store).columns)[: len(asdict(ROW))] == list(asdict(ROW))
    assert store.missing(recipe_of([ROW]), 1) == {ROW.architecture: (Work(0, 16, ("snip",)),)}
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
    opened = store.writer()
    for row in rows(3):
        opened.add([row])
    stale = store.parts()
    opened.close()
    listed = Store.parts
    # A reader lists the parts, then a writer joins them, then the reader opens them.
    answers = [stale]
    monkeypatch.setattr(Store, "parts", lambda self, *of: answers.pop() if answers else listed(self, *of))
    assert_holds(store, rows(3))
    # Or the writer joins them after they were checked.
    whole = [part.read_bytes() for part in store.parts()]
    answers = [stale]
    monkeypatch.setattr("zcbench.bench.scoring.store.check_all", lambda parts: None)
    assert_holds(store, rows(3))
    assert [part.read_bytes() for part in listed(store)] == whole


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
        assert pq.ParquetFile(part).metadata.num_rows % 2 == 0
    expected = child_rows(ROW, range(len(done) + 2))
    found = Store(store.folder).rows(recipe_of(expected))
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
    assert_holds(store, child_rows(ROW, range(60)))
    assert_holds(store, child_rows(other, range(60)))


def test_statuses_are_those_of_scores() -> None:
    assert ATTEMPTS < STATUSES
    assert {"ok", "nan", "inf", "-inf", "not_applicable"} == STATUSES - ATTEMPTS


def test_questions_read_no_other_file(store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")

    def ask() -> None:
        with questions.connected(store.scores) as connection:
            connection.execute(f"SELECT * FROM read_csv('{secret}')")

    store.scores.mkdir(exist_ok=True)
    refusal(ask, "cannot be read")
