from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from zcbench.errors import DataFileError
from zcbench.spaces import table as tables
from zcbench.spaces.table import Table, by_index, converted, number, read_csv, table


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tables.platformdirs, "user_cache_path", lambda _: tmp_path / "cache")
    path = tmp_path / "data" / "big.csv"
    path.parent.mkdir()
    path.write_text("name,accuracy\na,50\nb,60\n")
    return path


class Reader:
    """Reads the original, and counts how often it was asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def __call__(self) -> Table:
        self.count += 1
        rows = read_csv(self.path, ["name"], lambda row: (row["name"], [number(row["accuracy"]), np.nan]))
        return table(self.path, ["x/a", "x/b"], rows)


def read(original: Path, reader: Reader, version: int = 1) -> Table:
    return converted([original], "big", version, reader)


def copies(original: Path) -> list[Path]:
    return sorted((original.parent / ".zcbench").glob("*"))


def test_a_table_is_read_once(original: Path) -> None:
    reader = Reader(original)
    first, second = read(original, reader), read(original, reader)
    assert reader.count == 1
    assert (first.path, first.architectures) == (second.path, second.architectures) == (original, ("a", "b"))
    assert second.columns["x/a"].tolist() == [50, 60]
    assert np.isnan(second.columns["x/b"]).all()
    assert second.columns["x/a"].dtype == np.float64
    second.columns["x/a"][0] = 1  # a copy of its own
    assert len(copies(original)) == 1


def test_another_byte_is_another_table(original: Path) -> None:
    reader = Reader(original)
    read(original, reader)
    original.write_text("name,accuracy\na,50\nb,61\n")
    os.utime(original, (0, 0))
    assert read(original, reader).columns["x/a"].tolist() == [50, 61]
    assert len(copies(original)) == 1  # the stale one is gone
    assert read(original, reader, version=2).columns["x/a"].tolist() == [50, 61]
    assert reader.count == 3


@pytest.mark.parametrize("fault", ["truncated", "altered", "empty", "another"])
def test_a_torn_copy_is_made_anew(original: Path, fault: str) -> None:
    reader = Reader(original)
    read(original, reader)
    (copy,) = copies(original)
    content = copy.read_bytes()
    match fault:
        case "truncated":
            copy.write_bytes(content[:-20])
        case "altered":
            copy.write_bytes(bytes([*content[:8], content[8] ^ 255, *content[9:]]))
        case "empty":
            copy.write_bytes(b"")
        case "another":
            pq.write_table(pq.read_table(copy).replace_schema_metadata({"zcbench.digest": "0"}), copy)
    assert read(original, reader).columns["x/a"].tolist() == [50, 60]
    assert reader.count == 2
    assert read(original, reader).columns["x/a"].tolist() == [50, 60]
    assert reader.count == 2


def test_a_folder_that_is_not_to_be_written_is_left_alone(original: Path, tmp_path: Path) -> None:
    reader = Reader(original)
    original.parent.chmod(0o555)
    try:
        for _ in range(2):
            assert read(original, reader).architectures == ("a", "b")
        assert reader.count == 1
        assert [path.name for path in original.parent.iterdir()] == ["big.csv"]
        assert len(list((tmp_path / "cache" / "tables").iterdir())) == 1
    finally:
        original.parent.chmod(0o755)


def test_faults_are_not_kept(original: Path) -> None:
    original.write_text("name,accuracy\na,500\n")
    for _ in range(2):
        with pytest.raises(DataFileError, match="line 2"):
            read(original, Reader(original))
    assert copies(original) == []
    original.unlink()
    with pytest.raises(DataFileError, match="cannot be read"):
        read(original, Reader(original))


def test_rows_are_streamed(original: Path) -> None:
    rows = read_csv(original, ["name"], lambda row: row["name"])
    assert next(rows) == "a"
    original.unlink()
    assert list(rows) == ["b"]


@pytest.mark.parametrize(("text", "bounds"), [("0", (0, 100)), ("100.1", (0, 100)), ("nan", (0, 100)), ("1", (-1, 0))])
def test_numbers_out_of_bounds(text: str, bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"expected an accuracy above -?\d+ and up to \d+, got "):
        number(text, bounds)


def test_indices_once_and_all(tmp_path: Path) -> None:
    assert by_index(tmp_path, [(1, 5.0), (0, 4.0)], 2).tolist() == [4, 5]
    with pytest.raises(DataFileError, match="network 1 occurs twice"):
        by_index(tmp_path, [(1, 5.0), (1, 4.0)], 2)
    with pytest.raises(DataFileError, match="1 of 2 networks are missing"):
        by_index(tmp_path, [(1, 5.0)], 2)


def test_networks_once_unless_they_may_repeat(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="a occurs twice"):
        table(tmp_path, ["x"], [("a", [1.0]), ("a", [2.0])])
    assert table(tmp_path, ["x"], [("a", [1.0]), ("a", [2.0])], repeated=True).columns["x"].tolist() == [1]
    with pytest.raises(DataFileError, match="lists no networks"):
        table(tmp_path, ["x"], [])
