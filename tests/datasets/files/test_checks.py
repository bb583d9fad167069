from __future__ import annotations

import hashlib
import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from zcbench.datasets.files.checks import Found, Status, check, recorded, status, unlisted
from zcbench.datasets.files.registry import Archive, DataFile, Records, Source, Subset, locate, sources
from zcbench.errors import DataFileError

CONTENT = {"one.bin": b"one", "deep/two.bin": b"two" * 1000, "three.bin": b""}


def source(package: str | None = None) -> Source:
    files = tuple(DataFile(path, hashlib.sha256(text).hexdigest(), len(text)) for path, text in CONTENT.items())
    return Source("toys", "three toys", "MIT", files, "ask the toymaker", package)


def fill(folder: Path) -> None:
    for path, content in CONTENT.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def states(source: Source, folder: Path, hashed: bool) -> list[str]:
    return [each.state for each in check(source, folder, hashed=hashed)]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with the toys that fails when it is imported."""
    folder = tmp_path / "site" / "zcbench_toys"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('a package of data was run')")
    fill(folder)
    monkeypatch.syspath_prepend(folder.parent)
    importlib.invalidate_caches()
    return folder


@pytest.mark.parametrize("hashed", [False, True])
def test_check_of_whole_files(tmp_path: Path, hashed: bool) -> None:
    fill(tmp_path)
    assert check(source(), tmp_path, hashed=hashed) == [Found(tmp_path / path, "present") for path in CONTENT]


@pytest.mark.parametrize("hashed", [False, True])
def test_check_of_absent_files(tmp_path: Path, hashed: bool) -> None:
    assert check(source(), tmp_path / "absent", hashed=hashed) == [
        Found(tmp_path / "absent" / path, "absent") for path in CONTENT
    ]


@pytest.mark.parametrize("hashed", [False, True])
def test_check_sees_another_size(tmp_path: Path, hashed: bool) -> None:
    fill(tmp_path)
    (tmp_path / "deep" / "two.bin").write_bytes(b"two")
    assert states(source(), tmp_path, hashed) == ["present", "differs", "present"]


@pytest.mark.parametrize(("hashed", "expected"), [(False, "present"), (True, "differs")])
def test_only_hashing_sees_other_bytes(tmp_path: Path, hashed: bool, expected: str) -> None:
    fill(tmp_path)
    (tmp_path / "one.bin").write_bytes(b"ONE")
    assert states(source(), tmp_path, hashed)[0] == expected


PAGES = [
    b"<!DOCTYPE html>\n<html><title>404</title></html>",
    b"\xef\xbb\xbf\n <!doctype HTML PUBLIC '-//W3C//DTD'>",
    b"<html lang='en'>",
    b"<!-- a proxy -->\n<HTML>",
]


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        *((page, f"it is an HTML page of {len(page)} bytes, expected 3,000 bytes") for page in PAGES),
        (b"", "it is truncated: 0 of 3,000 bytes"),
        (b"two" * 999, "it is truncated: 2,997 of 3,000 bytes"),
        (b"two" * 1001, "it has 3,003 bytes, not 3,000 bytes"),
    ],
)
def test_a_glance_names_the_fault(tmp_path: Path, content: bytes, fault: str, hashed: bool) -> None:
    fill(tmp_path)
    path = tmp_path / "deep" / "two.bin"
    path.write_bytes(content)
    assert check(source(), tmp_path, hashed=hashed)[1] == Found(path, "differs", fault)


def test_other_bytes_are_named_by_their_digests(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "one.bin").write_bytes(b"ONE")
    came, expected = (hashlib.sha256(content).hexdigest() for content in (b"ONE", b"one"))
    assert check(source(), tmp_path, hashed=True)[0].fault == f"it has sha256 {came}, expected {expected}"


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "one.bin").mkdir()
    assert check(source(), tmp_path, hashed=True)[0] == Found(
        tmp_path / "one.bin", "differs", "it is a folder, expected a file"
    )


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)

    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert {(each.state, each.fault) for each in check(source(), tmp_path, hashed=True)} == {
        ("differs", "it cannot be read (Permission denied)")
    }


# A file whose owner states nothing: neither size nor checksum.
UNSTATED = Source("sweeps", "a sweep", "MIT", (DataFile("sweeps/A.json", None, None),), "zcbench data get sweeps")


def test_a_file_without_checksum_is_unverified(tmp_path: Path) -> None:
    path = tmp_path / "sweeps" / "A.json"
    path.parent.mkdir()
    path.write_bytes(b"[1]")
    assert check(UNSTATED, tmp_path, hashed=False) == [Found(path, "present")]
    (found,) = check(UNSTATED, tmp_path, hashed=True)
    assert found.state == "unverified"
    assert hashlib.sha256(b"[1]").hexdigest() in found.fault
    assert status(UNSTATED, tmp_path, [found]) == Status("unverified")


@pytest.mark.parametrize("content", [b"", PAGES[0]])
@pytest.mark.parametrize("hashed", [False, True])
def test_a_file_without_checksum_is_at_least_no_page(tmp_path: Path, content: bytes, hashed: bool) -> None:
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "A.json").write_bytes(content)
    (found,) = check(UNSTATED, tmp_path, hashed=hashed)
    assert (found.state, "empty" in found.fault or "HTML page" in found.fault) == ("differs", True)


def test_a_file_without_checksum_is_compared_with_what_came(tmp_path: Path) -> None:
    folder = tmp_path / "sweeps"
    folder.mkdir()
    came = hashlib.sha256(b"[1]").hexdigest()
    (folder / "SHA256SUMS").write_text(f"# an address\n{came}  A.json\nnonsense\n{'0' * 64} *B.json\n")
    (folder / "A.json").write_bytes(b"[1]")
    assert recorded(folder) == {"A.json": came, "B.json": "0" * 64}
    assert states(UNSTATED, tmp_path, True) == ["present"]
    (folder / "A.json").write_bytes(b"[2]")
    (found,) = check(UNSTATED, tmp_path, hashed=True)
    assert found.state == "differs"
    assert f"expected {came}, as SHA256SUMS has it" in found.fault


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0", b"0" * 100_000, b"\n" * 100_000])
def test_what_is_no_list_of_sums_names_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "SHA256SUMS").write_bytes(content)
    assert recorded(tmp_path) == {}


def test_an_official_digest_goes_before_what_came(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "one.bin").write_bytes(b"ONE")
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(b'ONE').hexdigest()}  one.bin\n")
    assert states(source(), tmp_path, True)[0] == "differs"


def test_figures_without_address_are_known_or_unverified(tmp_path: Path) -> None:
    """A table that everybody has to write has no official digest; the one that figures here were made from is known."""
    subsets = (Subset(hashlib.sha256(b"a,b").hexdigest(), 3),)
    toys = Source("toys", "a table", "MIT", (DataFile("toy", None, None, subsets=subsets),), "write it")
    found = {}
    for content in (b"a,b", b"A,B", b"a,b,c"):
        (tmp_path / "toy").write_bytes(content)
        found[content] = (states(toys, tmp_path, False)[0], states(toys, tmp_path, True)[0])
    assert found == {b"a,b": ("present",) * 2, b"A,B": ("present", "unverified"), b"a,b,c": ("present", "unverified")}


def overall(source: Source, folder: Path) -> Status:
    return status(source, folder, check(source, folder, hashed=False))


def test_a_source_is_present_partial_or_absent(tmp_path: Path) -> None:
    assert overall(source(), tmp_path) == Status("absent")
    fill(tmp_path)
    assert overall(source(), tmp_path) == Status("present")
    (tmp_path / "one.bin").unlink()
    assert overall(source(), tmp_path) == Status("partial", "2 of 3 files")
    (tmp_path / "three.bin").write_bytes(b"more")
    assert overall(source(), tmp_path) == Status("differs")


def test_what_is_left_of_a_download_is_partial(tmp_path: Path) -> None:
    (tmp_path / "one.bin.part").write_bytes(b"on")
    assert overall(source(), tmp_path) == Status("partial", "one.bin.part with 2 of 3 bytes")
    fill(tmp_path)
    assert overall(source(), tmp_path) == Status("present")


@pytest.mark.parametrize(("size", "said"), [(1000, "2 of 1,000 bytes"), (None, "2 bytes")])
def test_what_is_left_of_an_archive_is_partial(tmp_path: Path, size: int | None, said: str) -> None:
    packed = replace(UNSTATED, archive=Archive("https://nowhere.test/a.zip", bytes=size))
    assert overall(packed, tmp_path) == Status("absent")
    (tmp_path / "a.zip.part").write_bytes(b"PK")
    assert overall(packed, tmp_path) == Status("partial", f"a.zip.part with {said}")


def test_records_are_counted(tmp_path: Path) -> None:
    release = replace(source(), records=Records("records/[0-9]*.bin", 3))
    fill(tmp_path)
    assert overall(release, tmp_path) == Status("partial", "0 of 3 records")
    (tmp_path / "records").mkdir()
    for name in ("0.bin", "1.bin", "meta.bin", "2.bin.part"):
        (tmp_path / "records" / name).touch()
    assert overall(release, tmp_path) == Status("partial", "2 of 3 records")
    assert unlisted(release, tmp_path) == 2
    (tmp_path / "one.bin").unlink()
    assert overall(release, tmp_path) == Status("partial", "2 of 3 files, 2 of 3 records")
    fill(tmp_path)
    (tmp_path / "records" / "2.bin").touch()
    assert overall(release, tmp_path) == Status("present")
    assert overall(release, tmp_path / "elsewhere") == Status("absent")


def test_records_that_are_listed_have_a_checksum(tmp_path: Path) -> None:
    release = replace(source(), records=Records("*.bin", 9))
    fill(tmp_path)
    (tmp_path / "four.bin").touch()
    assert unlisted(release, tmp_path) == 1
    assert unlisted(source(), tmp_path) == 0


def test_an_md5_serves_where_no_sha256_is_published(tmp_path: Path) -> None:
    file = DataFile("one.bin", None, None, md5=hashlib.md5(b"one").hexdigest())
    toys = Source("toys", "a toy", "MIT", (file,), "ask the toymaker")
    seen = []
    for content in (b"one", b"ONE", b"another size"):
        (tmp_path / "one.bin").write_bytes(content)
        seen += [states(toys, tmp_path, hashed)[0] for hashed in (False, True)]
    # Without a size, nothing but the digest tells one file from another.
    assert seen == ["present", "present", "present", "differs", "present", "differs"]


@pytest.mark.parametrize("official", [b"the whole", None], ids=["size known", "size unknown"])
def test_a_known_subset_is_present_and_its_forgery_differs(tmp_path: Path, official: bytes | None) -> None:
    subset = Subset(hashlib.sha256(b"part").hexdigest(), 4)
    size = len(official) if official else None
    file = DataFile("toy", hashlib.sha256(b"the whole").hexdigest(), size, subsets=(subset,))
    toys = Source("toys", "a toy", "MIT", (file,), "ask the toymaker")
    seen = {}
    for content in (b"the whole", b"THE WHOLE", b"part", b"PART", b"apart"):
        (tmp_path / "toy").write_bytes(content)
        seen[content] = states(toys, tmp_path, True)[0]
    assert [name for name, state in seen.items() if state == "present"] == [b"the whole", b"part"]


def test_the_digest_of_a_subset_with_the_size_of_the_official_file_is_not_official(tmp_path: Path) -> None:
    (tmp_path / "toy").write_bytes(b"part")
    file = DataFile("toy", "0" * 64, 4, subsets=(Subset(hashlib.sha256(b"part").hexdigest(), 5),))
    toys = Source("toys", "a toy", "MIT", (file,), "ask the toymaker")
    assert states(toys, tmp_path, True) == ["differs"]


def test_progress_adds_up_to_the_bytes(tmp_path: Path) -> None:
    fill(tmp_path)
    told: list[int] = []
    check(source(), tmp_path, hashed=True, progress=told.append)
    assert sum(told) == sum(map(len, CONTENT.values()))


def test_files_of_a_package_are_found_without_running_it(package: Path, tmp_path: Path) -> None:
    toys = source("zcbench_toys")
    assert locate(toys, tmp_path) == [package / path for path in CONTENT]
    assert check(toys, tmp_path, hashed=True) == [Found(package / path, "present") for path in CONTENT]
    assert "zcbench_toys" not in sys.modules


def test_package_that_is_not_installed(tmp_path: Path) -> None:
    toys = source("zcbench_no_such_package")
    with pytest.raises(DataFileError, match=r"zcbench_no_such_package, .* not installed: ask the toymaker") as caught:
        locate(toys, tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    assert check(toys, tmp_path, hashed=True) == [
        Found(Path("zcbench_no_such_package") / path, "absent") for path in CONTENT
    ]


def test_package_that_is_a_single_module(package: Path, tmp_path: Path) -> None:
    (package.parent / "zcbench_lone_module.py").touch()
    with pytest.raises(DataFileError, match="zcbench_lone_module"):
        locate(source("zcbench_lone_module"), tmp_path)


@pytest.mark.parametrize(("name", "count"), [("nats-tss", 15_625), ("nats-sss", 32_768)])
def test_releases_of_nats_bench(real_data: Path, name: str, count: int) -> None:
    entry = sources()[name]
    assert entry.records is not None
    assert entry.records.count == count
    assert all((real_data / file.path).is_file() for file in entry.files)
    assert overall(entry, real_data).note in {"", f"3 of {count:,} records"}


def test_real_files_are_the_pinned_ones(real_data: Path) -> None:
    for name, entry in sources().items():
        found = check(entry, real_data, hashed=True)
        assert {each.state for each in found if each.state != "absent"} <= {"present"}, name


@pytest.mark.parametrize("name", sorted(name for name, entry in sources().items() if entry.package))
def test_installed_packages_carry_the_pinned_files(name: str, tmp_path: Path) -> None:
    assert set(states(sources()[name], tmp_path, True)) == {"present"}
