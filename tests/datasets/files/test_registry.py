from __future__ import annotations

import hashlib
import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from zcbench.datasets.files.registry import (
    Archive,
    DataFile,
    Found,
    Records,
    Source,
    Status,
    Subset,
    check,
    data_folder,
    find,
    locate,
    recorded,
    sources,
    status,
    unlisted,
)
from zcbench.errors import DataFileError, UnknownNameError

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


def test_argument_goes_before_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCBENCH_DATA", "/from/variable")
    assert data_folder("/given") == Path("/given")
    assert data_folder(Path("/given")) == Path("/given")


def test_variable_goes_before_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCBENCH_DATA", "/from/variable")
    assert data_folder() == data_folder(None) == Path("/from/variable")


@pytest.mark.parametrize("value", [None, ""])
def test_default_is_the_users_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("ZCBENCH_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("ZCBENCH_DATA", value)
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: tmp_path / name)
    assert data_folder() == tmp_path / "zcbench"


def test_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCBENCH_DATA", "~/images")
    assert data_folder() == Path.home() / "images"


def test_asking_for_the_folder_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCBENCH_DATA", str(tmp_path / "absent"))
    data_folder()
    assert not (tmp_path / "absent").exists()


def test_find_returns_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    path.parent.mkdir()
    path.touch()
    assert find("cifar10", tmp_path) == path


def test_find_takes_another_file_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    assert find("cifar10", tmp_path, "other") == tmp_path / "other"


@pytest.mark.parametrize("name", ["cifar10", "nb201"])
def test_absent_file_says_how_to_get_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataFileError) as caught:
        find(name, tmp_path)
    message = str(caught.value)
    assert str(tmp_path / sources()[name].files[0].path) in message
    assert sources()[name].get in message
    assert "https://" in message
    assert "ZCBENCH_DATA" in message
    assert len(message.splitlines()) == 1


def test_a_folder_in_place_of_the_file_is_absent(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").mkdir(parents=True)
    with pytest.raises(DataFileError, match="data_batch_1 is absent"):
        find("cifar10", tmp_path)


def test_unknown_source_suggests_a_known_one(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown data source 'cifar-10': did you mean .*cifar10"):
        find("cifar-10", tmp_path)


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


def test_absent_file_of_a_package_does_not_advise_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = sources()["cifar10-samples"]
    empty = Source(samples.name, samples.what, samples.licence, samples.files, samples.get, "zcbench_empty")
    (tmp_path / "zcbench_empty").mkdir()
    (tmp_path / "zcbench_empty" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("zcbench.datasets.files.registry.sources", lambda: {"cifar10-samples": empty})
    with pytest.raises(DataFileError, match="is absent: install the extra") as caught:
        find("cifar10-samples", tmp_path)
    assert "ZCBENCH_DATA" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(sources()))
def test_registry_is_complete(name: str) -> None:
    entry = sources()[name]
    assert entry.name == name
    assert entry.files
    for text in (entry.what, entry.licence, entry.get):
        assert text.strip() == text != ""
        assert text.isprintable()
    for file in entry.files:
        # One digest of the official file, the better one where both are published; where none is, it is a table that
        # everybody writes, or a member of an archive without digest.
        assert (file.sha256 is None) or (file.md5 is None)
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256 or "0" * 64)
        assert re.fullmatch(r"[0-9a-f]{32}", file.md5 or "0" * 32)
        if not (file.sha256 or file.md5):
            assert file.bytes is None
            assert file.subsets if "no public address" in entry.get else entry.archive and not entry.archive.digest
        assert file.bytes is None or file.bytes > 0
        for subset in file.subsets:
            assert re.fullmatch(r"[0-9a-f]{64}", subset.sha256)
            assert file.bytes is None or 0 < subset.bytes < file.bytes
        assert not Path(file.path).is_absolute()
        assert ".." not in Path(file.path).parts


def test_registry_names_no_file_twice() -> None:
    paths = [(entry.package, file.path) for entry in sources().values() for file in entry.files]
    assert len(paths) == len(set(paths))


def test_registry_holds_the_documented_sources() -> None:
    images = {"cifar10", "cifar10-samples", "cifar100", "cifar100-samples", "imagenet16-120"}
    nb201 = {"nb201", "nb201-core", "nb201-analog", "nb201-robot", "nb201-seeds", "nats-tss"}
    others = {"nats-sss", "nb-macro", "nb101", "nb101-naslib", "nb301", "tnb101-micro", "tnb101-macro", "darts-trained"}
    assert set(sources()) == images | nb201 | others | {"nds"}


@pytest.mark.parametrize("name", sorted(sources()))
def test_how_to_get_a_source_names_what_is_needed(name: str) -> None:
    entry = sources()[name]
    if entry.package:
        assert 'pip install "zcbench[quickstart]"' in entry.get
        return
    assert "https://" in entry.get
    assert "http://" not in entry.get
    if entry.archive or all(file.url for file in entry.files):
        assert f"zcbench data get {name} " in entry.get
    else:  # where to put it
        folder, _, file_name = entry.files[0].path.rpartition("/")
        assert folder in entry.get
        assert file_name in entry.get
    if entry.records:
        folder = entry.records.pattern.rpartition("/")[0]
        assert entry.get.count(f"{folder.rpartition('/')[2]}.tar") == 1
        assert f"in {folder.rpartition('/')[0]}/ in the data folder" in entry.get


# A commit, or a release whose content its owner does not change; the checksum tells if he does.
PINNED = re.compile(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/[\w./-]+")
RELEASED = {
    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    "https://dl.fbaipublicfiles.com/nds/data.zip",
}


@pytest.mark.parametrize("name", sorted(sources()))
def test_addresses_are_pinned(name: str) -> None:
    entry = sources()[name]
    for file in entry.files:
        assert file.url is None or PINNED.fullmatch(file.url)
        if file.url:
            assert file.sha256
            assert file.bytes
            assert file.url.endswith(file.path.rpartition("/")[2])
    if entry.archive:
        assert entry.archive.url in RELEASED
        assert entry.archive.digest or entry.archive.name.endswith(".zip")


def test_archives_have_different_names() -> None:
    names = [entry.archive.name for entry in sources().values() if entry.archive]
    assert len(names) == len(set(names))


# The sweep_list of nni/nas/benchmark/nds/db_gen.py (microsoft/nni), which reads the official archive.
SWEEPS = """
Amoeba Amoeba_in DARTS DARTS_fix-w-d DARTS_in DARTS_lr-wd DARTS_lr-wd_in ENAS ENAS_fix-w-d ENAS_in NASNet NASNet_in PNAS
PNAS_fix-w-d PNAS_in ResNeXt-A ResNeXt-A_in ResNeXt-B ResNeXt-B_in ResNet-B ResNet ResNet_lr-wd ResNet_lr-wd_in
ResNet_reruns ResNet_rng1 ResNet_rng2 ResNet_rng3 Vanilla Vanilla_lr-wd Vanilla_lr-wd_in Vanilla_reruns Vanilla_rng1
Vanilla_rng2 Vanilla_rng3
"""


def test_the_sweeps_of_nds() -> None:
    names = SWEEPS.split()
    assert len(names) == len(sources()["nds"].files) == 34
    assert {file.path for file in sources()["nds"].files} == {f"nds_data/{name}.json" for name in names}


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
