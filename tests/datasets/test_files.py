from __future__ import annotations

import hashlib
import importlib
import re
import sys
from pathlib import Path

import pytest
from zcbench.datasets.files import DataFile, Source, Subset, check, data_folder, find, locate, sources
from zcbench.errors import DataFileError, UnknownNameError

CONTENT = {"one.bin": b"one", "deep/two.bin": b"two" * 1000, "three.bin": b""}


def source(package: str | None = None) -> Source:
    files = tuple(DataFile(path, hashlib.sha256(text).hexdigest(), len(text)) for path, text in CONTENT.items())
    return Source("toys", "three toys", "MIT", files, "ask the toymaker", package)


def fill(folder: Path) -> None:
    for path, content in CONTENT.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


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
    assert check(source(), tmp_path, hashed=hashed) == [(tmp_path / path, "present") for path in CONTENT]


@pytest.mark.parametrize("hashed", [False, True])
def test_check_of_absent_files(tmp_path: Path, hashed: bool) -> None:
    assert check(source(), tmp_path / "absent", hashed=hashed) == [
        (tmp_path / "absent" / path, "absent") for path in CONTENT
    ]


@pytest.mark.parametrize("hashed", [False, True])
def test_check_sees_another_size(tmp_path: Path, hashed: bool) -> None:
    fill(tmp_path)
    (tmp_path / "deep" / "two.bin").write_bytes(b"<html></html>")
    assert [state for _, state in check(source(), tmp_path, hashed=hashed)] == ["present", "differs", "present"]


@pytest.mark.parametrize(("hashed", "expected"), [(False, "present"), (True, "differs")])
def test_only_hashing_sees_other_bytes(tmp_path: Path, hashed: bool, expected: str) -> None:
    fill(tmp_path)
    (tmp_path / "one.bin").write_bytes(b"ONE")
    assert check(source(), tmp_path, hashed=hashed)[0] == (tmp_path / "one.bin", expected)


def test_an_md5_serves_where_no_sha256_is_published(tmp_path: Path) -> None:
    file = DataFile("one.bin", None, None, md5=hashlib.md5(b"one").hexdigest())
    toys = Source("toys", "a toy", "MIT", (file,), "ask the toymaker")
    states = []
    for content in (b"one", b"ONE", b"another size"):
        (tmp_path / "one.bin").write_bytes(content)
        states += [check(toys, tmp_path, hashed=hashed)[0][1] for hashed in (False, True)]
    # Without a size, nothing but the digest tells one file from another.
    assert states == ["present", "present", "present", "differs", "present", "differs"]


@pytest.mark.parametrize("official", [b"the whole", None], ids=["size known", "size unknown"])
def test_a_known_subset_is_present_and_its_forgery_differs(tmp_path: Path, official: bytes | None) -> None:
    subset = Subset(hashlib.sha256(b"part").hexdigest(), 4)
    size = len(official) if official else None
    file = DataFile("toy", hashlib.sha256(b"the whole").hexdigest(), size, subsets=(subset,))
    toys = Source("toys", "a toy", "MIT", (file,), "ask the toymaker")
    states = {}
    for content in (b"the whole", b"THE WHOLE", b"part", b"PART", b"apart"):
        (tmp_path / "toy").write_bytes(content)
        states[content] = check(toys, tmp_path, hashed=True)[0][1]
    assert [name for name, state in states.items() if state == "present"] == [b"the whole", b"part"]


def test_the_digest_of_a_subset_with_the_size_of_the_official_file_is_not_official(tmp_path: Path) -> None:
    (tmp_path / "toy").write_bytes(b"part")
    file = DataFile("toy", "0" * 64, 4, subsets=(Subset(hashlib.sha256(b"part").hexdigest(), 5),))
    toys = Source("toys", "a toy", "MIT", (file,), "ask the toymaker")
    assert check(toys, tmp_path, hashed=True)[0][1] == "differs"


def test_progress_adds_up_to_the_bytes(tmp_path: Path) -> None:
    fill(tmp_path)
    told: list[int] = []
    check(source(), tmp_path, hashed=True, progress=told.append)
    assert sum(told) == sum(map(len, CONTENT.values()))


def test_files_of_a_package_are_found_without_running_it(package: Path, tmp_path: Path) -> None:
    toys = source("zcbench_toys")
    assert locate(toys, tmp_path) == [package / path for path in CONTENT]
    assert check(toys, tmp_path, hashed=True) == [(package / path, "present") for path in CONTENT]
    assert "zcbench_toys" not in sys.modules


def test_package_that_is_not_installed(tmp_path: Path) -> None:
    toys = source("zcbench_no_such_package")
    with pytest.raises(DataFileError, match=r"zcbench_no_such_package, .* not installed: ask the toymaker") as caught:
        locate(toys, tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    assert check(toys, tmp_path, hashed=True) == [
        (Path("zcbench_no_such_package") / path, "absent") for path in CONTENT
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
    monkeypatch.setattr("zcbench.datasets.files.sources", lambda: {"cifar10-samples": empty})
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
        # One digest of the official file, the better one where both are published.
        if file.sha256 is None:
            assert re.fullmatch(r"[0-9a-f]{32}", file.md5 or "")
        else:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.md5 is None
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
    assert images | {"nb201", "nb201-core", "nb201-analog"} <= set(sources())


@pytest.mark.parametrize("name", sorted(name for name, entry in sources().items() if entry.package))
def test_installed_packages_carry_the_pinned_files(name: str, tmp_path: Path) -> None:
    assert {state for _, state in check(sources()[name], tmp_path, hashed=True)} == {"present"}
