from __future__ import annotations

import re
from pathlib import Path

import pytest
from zcbench.datasets.files.registry import (
    Source,
    data_folder,
    find,
    sources,
)
from zcbench.errors import DataFileError, UnknownNameError


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
