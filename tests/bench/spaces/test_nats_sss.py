from __future__ import annotations

import bz2
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from zcbench.bench.spaces import SPACES, nats_sss
from zcbench.bench.spaces.nats_sss import CELL, read_compressed
from zcbench.bench.spaces.nb201 import text
from zcbench.errors import DataFileError

SPACE = SPACES["nats_sss"](None)
RECORDS = (0, 11, 284)
SETS = {"cifar10": "cifar10", "cifar100": "cifar100", "imagenet16-120": "ImageNet16-120"}


@pytest.fixture(scope="module")
def release(real_data: Path) -> Path:
    folder = real_data / "tables" / "nats-simple" / "NATS-sss-v1_0-50262-simple"
    if not (folder / "meta.pickle.pbz2").is_file():
        pytest.skip(f"needs {folder}")
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(nats_sss, "find", lambda *_: tmp_path / "meta.pickle.pbz2")
    return tmp_path


def record(index: int, accuracies: dict[int, object]) -> dict[str, Any]:
    return {
        "90": {
            "arch_str": SPACE.architecture(index),
            "dataset_seed": {"cifar10": list(accuracies)},
            "all_results": {("cifar10", s): {"eval_acc1es": {"ori-test@89": a}} for s, a in accuracies.items()},
        }
    }


def write(folder: Path, index: int, content: object, name: str = "{:06d}") -> Path:
    path = folder / f"{name.format(index)}.pickle.pbz2"
    path.write_bytes(bz2.compress(pickle.dumps(content, protocol=4)))
    return path


def test_index_is_a_number_of_base_eight() -> None:
    texts = [SPACE.architecture(index) for index in range(SPACE.size)]
    assert texts[:2] == ["8:8:8:8:8", "8:8:8:8:16"]
    assert texts[-1] == "64:64:64:64:64"
    assert len(set(texts)) == SPACE.size == 32_768
    assert [SPACE.index(text) for text in texts] == list(range(SPACE.size))


def test_order_is_the_official_one(release: Path) -> None:
    official = read_compressed(release / "meta.pickle.pbz2")["meta_archs"]
    assert official == [SPACE.architecture(index) for index in range(SPACE.size)]


@pytest.mark.parametrize("malformed", ["8:8:8:8", "8:8:8:8:8:8", "8:8:8:8:12", "08:8:8:8:8", "8:8:8:8:72", "8,8,8,8,8"])
def test_malformed_texts(malformed: str) -> None:
    with pytest.raises(nats_sss.ArchitectureError, match=f"'{malformed}': expected 5 widths"):
        SPACE.index(malformed)


@pytest.mark.parametrize(("architecture", "params"), [("8:8:8:8:8", 11_714), ("64:64:64:64:64", 713_674)])
def test_params_of_known_networks(architecture: str, params: int) -> None:
    assert SPACE.params(architecture, CIFAR10) == params


@pytest.mark.parametrize("index", RECORDS)
def test_sizes_equal_the_records(release: Path, index: int) -> None:
    for trainings in read_compressed(release / f"{index:06d}.pickle.pbz2").values():
        for (name, _), result in trainings["all_results"].items():
            architecture, classes = trainings["arch_str"], result["arch_config"]["class_num"]
            assert result["arch_config"]["genotype"] == text(CELL)
            size = 16 if name == "ImageNet16-120" else 32
            assert round(1e6 * result["params"]) == SPACE.params(architecture, TASK)
            assert round(1e6 * result["flop"]) == SPACE.macs(architecture, TASK)


def test_network_of_five_widths() -> None:
    network = SPACE.build("8:16:24:32:64", CIFAR10, 0)
    x = network.get_submodule("stem")(torch.zeros(1, 3, 32, 32))
    shapes = []
    for cell in network.get_submodule("cells").children():
        x = cell(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(8, 32, 32), (16, 16, 16), (24, 16, 16), (32, 8, 8), (64, 8, 8)]
    kinds = [
        type(cell.get_submodule("layers")[3]).__name__ for cell in list(network.get_submodule("cells").children())[::2]
    ]
    assert kinds == ["Identity", "FactorizedReduce", "FactorizedReduce"]


def test_official_accuracies(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_sss, "find", lambda *_: release / "meta.pickle.pbz2")
    truth = SPACES["nats_sss"](release).truth("cifar10", "default")
    assert truth.name == "cifar10/test-90"
    assert truth.label.endswith(", 3 of 32768 records at hand")
    assert np.flatnonzero(np.isfinite(truth.values)).tolist() == list(RECORDS)
    for index in RECORDS:
        # The release's own pickle, whose sha256 is known, read as anything would read it.
        trainings = pickle.loads(bz2.decompress((release / f"{index:06d}.pickle.pbz2").read_bytes()))
        for task, name in SETS.items():
            evaluated = "ori-test" if task == "cifar10" else "x-test"
            for epochs, key in ((90, "90"), (12, "12"), (1, "01")):
                results = trainings[key]["all_results"]
                seeds = [seed for data, seed in results if data == name]
                assert len(seeds) == (3 if epochs == 12 else 1)
                expected = np.mean([results[name, s]["eval_acc1es"][f"{evaluated}@{epochs - 1}"] for s in seeds])
                assert SPACES["nats_sss"](release).truth(task, f"test-{epochs}").values[index] == pytest.approx(
                    expected, abs=1e-12
                )


def test_accuracies_are_means_over_the_listed_seeds(folder: Path) -> None:
    write(folder, 7, record(7, {777: 80.0, 888: np.float64(90.0)}))
    write(folder, 32_767, record(32_767, {777: 50.0}), name="{}")
    values = SPACES["nats_sss"](folder).truth("cifar10", "test-90").values
    assert values[7] == 85
    assert values[32_767] == 50
    assert np.isnan(values).sum() == SPACE.size - 2


def test_folder_without_records_is_named(folder: Path) -> None:
    with pytest.raises(DataFileError, match="has no records: unpack the simple release") as caught:
        SPACES["nats_sss"](folder).truth("cifar10", "test-90")
    assert str(folder) in str(caught.value)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("run",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(record(6, {777: 80.0}), "it is network 6", id="another network"),
        pytest.param(record(7, {}), "no seeds of cifar10", id="no seeds"),
        pytest.param(record(7, {777: 0.0}), "above 0 and up to 100 %, got 0.0", id="accuracy 0"),
        pytest.param(record(7, {777: 100.5}), "above 0 and up to 100 %, got 100.5", id="accuracy above 100"),
        pytest.param(record(7, {777: float("nan")}), "above 0 and up to 100 %, got nan", id="accuracy nan"),
        pytest.param(record(7, {777: "high"}), "expected a record with cifar10/test-90", id="accuracy is a text"),
        pytest.param({"12": record(7, {777: 80.0})["90"]}, "KeyError: '90'", id="other epochs"),
        pytest.param({}, "KeyError: '90'", id="empty"),
        pytest.param([1], "expected a record with cifar10/test-90", id="list"),
        pytest.param(None, "expected a record with cifar10/test-90", id="nothing"),
        pytest.param({"90": {"arch_str": 3}}, "expected a record with cifar10/test-90", id="no results"),
        pytest.param(record(7, {777: np.float32(80)}), "torn or not a pickle .*float64", id="another kind of number"),
        pytest.param(record(7, {777: np.zeros(3)}), "nothing was run", id="array"),
        pytest.param(OrderedDict(x=Evil()), "asks to run builtins.print.*nothing was run", id="code"),
    ],
)
def test_faults_are_refused_on_one_line_that_names_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str], content: object, message: str
) -> None:
    path = write(folder, 7, content)
    with pytest.raises(DataFileError, match=message) as caught:
        SPACES["nats_sss"](folder).truth("cifar10", "test-90")
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(b"", "torn or not a pickle", id="empty"),
        pytest.param(b"<!DOCTYPE html>", "no bz2", id="HTML page"),
        pytest.param(pickle.dumps({}), "no bz2", id="not packed"),
        pytest.param(bz2.compress(pickle.dumps(record(7, {777: 80.0})))[:-9], "torn or not a pickle", id="truncated"),
        pytest.param(
            bz2.compress(pickle.dumps(list(range(99)))[:50]), "torn or not a pickle", id="torn before packing"
        ),
        pytest.param(bz2.compress(bytes(1 << 25)), "more than 16777216 bytes", id="bomb"),
    ],
)
def test_torn_files_are_refused(folder: Path, raw: bytes, message: str) -> None:
    path = folder / "000007.pickle.pbz2"
    path.write_bytes(raw)
    with pytest.raises(DataFileError, match=message) as caught:
        SPACES["nats_sss"](folder).truth("cifar10", "test-90")
    assert str(path) in str(caught.value)


def test_duplicate_records_are_refused(folder: Path) -> None:
    for name in ("{:06d}", "{}"):
        write(folder, 7, record(7, {777: 80.0}), name)
    with pytest.raises(DataFileError, match="network 7 stands there twice"):
        SPACES["nats_sss"](folder).truth("cifar10", "test-90")


@pytest.mark.parametrize("name", ["7x", "\u0667"])
def test_other_files_are_no_records(folder: Path, name: str) -> None:
    write(folder, 7, record(7, {777: 80.0}))
    path = write(folder, 8, record(8, {777: 80.0}), name)
    if name.isdigit():
        assert np.isfinite(SPACES["nats_sss"](folder).truth("cifar10", "test-90").values).sum() == 1
    else:
        with pytest.raises(DataFileError, match=path.name):
            SPACES["nats_sss"](folder).truth("cifar10", "test-90")
