from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from zcbench.__main__ import main
from zcbench.datasets.files.registry import Archive, DataFile, Records, Source, sources
from zcbench.registry import Registry

Refused = Callable[[list[str]], str]


def test_data_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "where"]) == 0
    shown = capsys.readouterr().out
    assert str(Path("data").absolute()) in shown
    assert "ZCBENCH_DATA is set" in shown
    assert main(["data", "where", "--data", "."]) == 0
    assert "(--data names it)" in capsys.readouterr().out


def test_the_list_of_data_fits_100_columns_and_breaks_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines()[1:])) <= 100
    for source in sources().values():
        assert f"\n{source.name}: " in shown
        for address in re.findall(r"https://[^\s)]+[\w/]", source.get if source.package is None else ""):
            assert address in shown


def test_brackets_of_an_extra_are_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert main(["data", "list"]) == 0
    assert 'pip install "zcbench[quickstart]"' in capsys.readouterr().out


def known(monkeypatch: pytest.MonkeyPatch, *entries: Source) -> None:
    registry = Registry[Source]("data source")
    for entry in entries:
        registry.add(entry.name, entry)
    monkeypatch.setattr("zcbench.datasets.files.registry.sources", lambda: registry)


SMALL = b"architecture,accuracy"
SHA256 = hashlib.sha256(SMALL).hexdigest()
TABLE = DataFile("tables/small.csv", SHA256, len(SMALL), "https://nowhere.test/small.csv")
OTHER = DataFile("tables/other.csv", SHA256, len(SMALL), "https://nowhere.test/other.csv")
UNSTATED = DataFile("tables/unstated.csv", None, None)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of tables that a few small sources are of."""
    known(
        monkeypatch,
        Source("two", "two tables", "MIT", (TABLE, OTHER), "zcbench data get two"),
        Source("unstated", "a table", "none stated", (UNSTATED,), "write it"),
        Source(
            "records", "a release", "MIT", (replace(TABLE, path="tables/index"),), "zcbench data get records",
            records=Records("tables/[0-9]*", 1200),
        ),
    )  # fmt: skip
    folder = Path("data/tables")
    folder.mkdir(parents=True)
    return folder


def stored(capsys: pytest.CaptureFixture[str], action: str = "list") -> dict[str, dict[str, object]]:
    main(["data", action, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["folder"] == str(Path("data").absolute())
    return {record.pop("name"): record for record in document["sources"]}


def test_states_of_data(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(action: str = "list") -> list[tuple[object, object]]:
        return [(record["state"], record["note"]) for record in stored(capsys, action).values()]

    assert said() == [("absent", "")] * 3
    (small / "small.csv").write_bytes(SMALL)
    (small / "other.csv.part").write_bytes(SMALL[:7])
    (small / "unstated.csv").write_bytes(SMALL)
    (small / "index").write_bytes(SMALL)
    (small / "000001").touch()
    two, records = "1 of 2 files, other.csv.part with 7 of 21 bytes", "1 of 1,200 records"
    assert said() == [("partial", two), ("present", ""), ("partial", records)]
    assert said("verify") == [("partial", two), ("unverified", ""), ("partial", records)]
    assert main(["data", "list"]) == 0
    shown = capsys.readouterr().out
    assert two in shown
    assert records in shown
    (small / "other.csv").write_bytes(SMALL[:-1])
    assert said()[0] == ("differs", "")


def test_data_for_machines(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "small.csv").write_bytes(SMALL[:7])
    assert stored(capsys)["two"] == {
        "state": "differs",
        "note": "",
        "licence": "MIT",
        "what": "two tables",
        "get": "zcbench data get two",
        "files": [
            {
                "path": str(small.absolute() / "small.csv"),
                "state": "differs",
                "fault": "it is truncated: 7 of 21 bytes",
            },
            {"path": str(small.absolute() / "other.csv"), "state": "absent", "fault": ""},
        ],
        "unlisted": 0,
    }
    assert main(["data", "verify", "--json"]) == 1


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (SMALL[:-1], "differs: it is truncated: 20 of 21 bytes"),
        (SMALL + b"\n", "differs: it has 22 bytes, not 21 bytes"),
        (b"", "differs: it is truncated: 0 of 21 bytes"),
        (b"<!DOCTYPE html><html>", "differs: it is an HTML page of 21 bytes, expected 21 bytes"),
        (
            SMALL[::-1],
            f"differs: it has sha256 {hashlib.sha256(SMALL[::-1]).hexdigest()}, expected {SHA256}",
        ),
    ],
)
def test_data_verify_names_each_fault(
    small: Path, capsys: pytest.CaptureFixture[str], content: bytes, fault: str
) -> None:
    (small / "small.csv").write_bytes(content)
    assert main(["data", "verify"]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert f"{small.absolute() / 'small.csv'} {fault}" in shown
    assert "get it again" in shown[-1]


def test_what_is_partial_or_cannot_be_verified_is_no_fault(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "small.csv").write_bytes(SMALL)
    (small / "unstated.csv").write_bytes(SMALL)
    (small / "index").write_bytes(SMALL)
    for number in range(1100):
        (small / f"{number:06d}").touch()
    assert main(["data", "verify"]) == 0
    shown = capsys.readouterr().out
    assert f"unstated.csv is unverified: no checksum of it is published; it has sha256 {SHA256}" in shown
    assert "records: 1,100 records are unverified: no checksum is published" in shown
    assert "differs" not in shown


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["get"], "expected a name after `get`"),
        (["where", "cifar10"], "only there"),
        (["verify", "cifar10"], "only there"),
        (["get", "cifar"], "did you mean cifar10"),
        (["get", "nb201", "--json"], "no --json"),
        (["get", "nb101"], "https://storage.googleapis.com/nasbench/nasbench_full.tfrecord"),
        (["get", "nb101"], str(Path("data") / "tables" / "nb101" / "nb101_20001.csv")),
        (["get", "imagenet16-120"], str(Path("data") / "ImageNet16" / "train_data_batch_1")),
    ],
    ids=str,
)
def test_bad_downloads_are_one_line(arguments: list[str], word: str, refused: Refused) -> None:
    assert word in refused(["data", *arguments])


def test_packages_are_not_downloaded(
    capsys: pytest.CaptureFixture[str], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["data", "get", "cifar10-samples"]) == 0
    assert "there already" in capsys.readouterr().out
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    line = refused(["data", "get", "cifar10-samples"])
    assert 'cannot be downloaded by zcbench: install the extra: pip install "zcbench[quickstart]"' in line


def test_data_get(
    small: Path, capsys: pytest.CaptureFixture[str], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def receive(_: str, part: Path, have: int, size: int, progress: Callable[[int, int], None]) -> None:
        part.write_bytes(SMALL)
        progress(size - have, size)

    monkeypatch.setattr("zcbench.datasets.files.download._receive", receive)
    assert main(["data", "get", "two"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == [str(small.absolute() / name) for name in ("small.csv", "other.csv")]
    assert "bytes of two: 0/42" in output.err
    assert (small / "other.csv").read_bytes() == SMALL
    assert main(["data", "get", "two"]) == 0
    assert capsys.readouterr() == ("two is there already\n", "")
    assert main(["data", "get", "records"]) == 0
    assert "records is partial: 0 of 1,200 records; zcbench data get records" in capsys.readouterr().out
    (small / "small.csv").write_bytes(SMALL[:7])
    assert "move it away first" in refused(["data", "get", "two"])


def test_data_get_says_that_no_checksum_is_stated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive("https://nowhere.test/sweeps.zip")
    known(monkeypatch, Source("sweeps", "sweeps", "MIT", (UNSTATED, OTHER), "zcbench data get sweeps", archive=archive))

    def receive(_: str, part: Path, *__: object) -> None:
        with zipfile.ZipFile(part, "w") as packed:
            packed.writestr("elsewhere/unstated.csv", SMALL)

    monkeypatch.setattr("zcbench.datasets.files.download._receive", receive)
    assert main(["data", "get", "sweeps"]) == 0
    new, note, lacks, partial = capsys.readouterr().out.splitlines()
    assert new == str(Path("data").absolute() / "tables" / "unstated.csv")
    assert note.startswith("the owner of https://nowhere.test/sweeps.zip states no checksum of it")
    assert re.search(r"[0-9a-f]{64}, stands in SHA256SUMS", note)
    assert lacks == "https://nowhere.test/sweeps.zip lacks tables/other.csv"
    assert partial.startswith("sweeps is partial: 1 of 2 files")
    assert main(["data", "verify"]) == 0
    assert "unverified" not in capsys.readouterr().out


def test_real_data_is_verified(real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "verify", "--data", str(real_data)]) == 0
    assert "differs" not in capsys.readouterr().out
