"""The simple release of NATS-Bench, of both spaces."""

from __future__ import annotations

import bz2
import pickle
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zcbench.datasets.files.registry import sources
from zcbench.errors import DataFileError
from zcbench.spaces import SPACES, Space
from zcbench.spaces import nats as nats_simple

SOURCES = {"nb201": "nats-tss", "nats_sss": "nats-sss"}
#: The default accuracy of the release, and the epochs that its records have.
DEFAULT = {"nb201": "simple-test-200", "nats_sss": "test-90"}
EPOCHS = {"nb201": (12, 200), "nats_sss": (1, 12, 90)}
SETS = {"cifar10": "cifar10", "cifar100": "cifar100", "imagenet16-120": "ImageNet16-120"}
EVALUATED = {"cifar10": ["ori-test"], "cifar10-valid": ["x-valid"], "cifar100": ["x-test", "x-valid"]}
EVALUATED["ImageNet16-120"] = EVALUATED["cifar100"]

both = pytest.mark.parametrize("name", list(SOURCES))


def folder_of(name: str, data: Path) -> Path:
    return (data / sources()[SOURCES[name]].files[0].path).parent


def record(name: str, index: int, accuracy: object = 80.0, seeds: tuple[int, ...] = (777,)) -> dict[str, Any]:
    """A record of the official form, all of whose accuracies are one number, plus a tenth for every later seed."""
    space = SPACES[name](None)
    found = {}
    for epochs in EPOCHS[name]:
        results = {
            (data, seed): {
                "eval_acc1es": {
                    f"{of}@{epochs - 1}": accuracy + place / 10 if isinstance(accuracy, float) else accuracy
                    for of in evaluated
                }
            }
            for data, evaluated in EVALUATED.items()
            for place, seed in enumerate(seeds)
        }
        found[f"{epochs:02d}"] = {
            "arch_str": space.architecture(index),
            "dataset_seed": {data: list(seeds) for data in EVALUATED},
            "all_results": results,
        }
    return found


def write(name: str, data: Path, index: int, content: object, form: str = "{:06d}") -> Path:
    folder = folder_of(name, data)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.pickle.pbz2").touch()
    path = folder / f"{form.format(index)}.pickle.pbz2"
    path.write_bytes(content if isinstance(content, bytes) else bz2.compress(pickle.dumps(content, protocol=4)))
    return path


def space_at(name: str, data: Path) -> Space:
    return SPACES[name](data)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@both
def test_official_accuracies(name: str, real_data: Path) -> None:
    folder = folder_of(name, real_data)
    if not (folder / "000000.pickle.pbz2").exists():
        pytest.skip(f"needs {folder}")
    space = space_at(name, real_data)
    for index in (0, 11, 284):
        # The release's own pickle, whose sha256 is known, read as anything would read it.
        trainings = pickle.loads(bz2.decompress((folder / f"{index:06d}.pickle.pbz2").read_bytes()))
        for task, data in SETS.items():
            evaluated = "ori-test" if task == "cifar10" else "x-test"
            for epochs in EPOCHS[name]:
                results = trainings[f"{epochs:02d}"]["all_results"]
                found = [results[d, s]["eval_acc1es"][f"{evaluated}@{epochs - 1}"] for d, s in results if d == data]
                which = f"simple-test-{epochs}" if name == "nb201" else f"test-{epochs}"
                truth = space.truth(task, which)
                assert truth.values[index] == pytest.approx(np.mean(found), abs=1e-12)
                assert truth.label.endswith(f", 3 of {space.size} networks at hand")
                assert np.isfinite(truth.values).sum() == 3


@pytest.mark.parametrize("task", list(SETS))
def test_the_release_equals_the_table_of_means(task: str, real_data: Path) -> None:
    space = space_at("nb201", real_data)
    try:
        simple, table = (space.truth(task, which).values for which in ("simple-test-200", "test-200"))
    except DataFileError as error:
        pytest.skip(str(error))
    known = np.isfinite(simple)
    np.testing.assert_allclose(simple[known], table[known], atol=1e-8)


def test_single_seeds(tmp_path: Path) -> None:
    write("nb201", tmp_path, 7, record("nb201", 7, seeds=(777, 888, 999)))
    write("nb201", tmp_path, 8, record("nb201", 8, seeds=(888,)))
    space = space_at("nb201", tmp_path)
    found = {
        which: space.truth("cifar100", which).values[[7, 8]].tolist()
        for which in ("simple-test-200", *(f"simple-test-200-seed{seed}" for seed in (777, 888, 999)))
    }
    assert found["simple-test-200"] == pytest.approx([80.1, 80.0])
    assert found["simple-test-200-seed777"] == pytest.approx([80.0, np.nan], nan_ok=True)
    assert found["simple-test-200-seed888"] == pytest.approx([80.1, 80.0])
    assert found["simple-test-200-seed999"] == pytest.approx([80.2, np.nan], nan_ok=True)
    assert ", 1 of 15625 networks at hand" in space.truth("cifar10", "simple-test-200-seed999").label


@both
def test_names_padded_or_not(name: str, tmp_path: Path) -> None:
    write(name, tmp_path, 7, record(name, 7, 81.0))
    write(name, tmp_path, 12_345, record(name, 12_345, np.float64(82.0)), "{}")
    values = space_at(name, tmp_path).truth("cifar10", DEFAULT[name]).values
    assert (values[7], values[12_345]) == (81, 82)
    assert np.isfinite(values).sum() == 2


@both
def test_a_folder_is_read_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(name, tmp_path, 7, record(name, 7, 81.0))
    reads: list[Path] = []
    unpickle = nats_simple.unpickle
    monkeypatch.setattr(nats_simple, "unpickle", lambda p, allowed: (reads.append(p), unpickle(p, allowed))[1])
    for _ in range(2):
        for task in SETS:
            for which in space_at(name, tmp_path).truths[task]:
                # Seed 777 alone is in the record; other accuracies of NAS-Bench-201 are in other files.
                if name == "nats_sss" or (which.startswith("simple") and which[-3:] not in {"888", "999"}):
                    assert space_at(name, tmp_path).truth(task, which).values[7] == 81
    assert reads == [path]
    # Another byte, another table.
    write(name, tmp_path, 7, record(name, 7, 83.0))
    assert space_at(name, tmp_path).truth("cifar10", DEFAULT[name]).values[7] == 83
    write(name, tmp_path, 8, record(name, 8, 84.0))
    assert space_at(name, tmp_path).truth("cifar10", DEFAULT[name]).values[8] == 84
    assert len(reads) == 4
    assert len(list((path.parent / ".zcbench").iterdir())) == 1


def test_one_record_is_held_at_a_time(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        data = tmp_path / str(count)
        for index in range(count):
            padded = record("nats_sss", index) | {"ballast": {"arch_str": SPACES["nats_sss"](None).architecture(index)}}
            padded["ballast"]["noise"] = list(range(index, index + 30_000))
            write("nats_sss", data, index, padded)
        space = space_at("nats_sss", data)
        tracemalloc.start()
        space.truth("cifar10")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(4), peak(20)
    assert many < 1.5 * few


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("run",))


def without(name: str, key: str) -> dict[str, Any]:
    found = record(name, 7)
    del found[key]
    return found


def without_set(name: str) -> dict[str, Any]:
    found = record(name, 7)
    for trainings in found.values():
        del trainings["dataset_seed"]["cifar10"]
    return found


def of_two() -> dict[str, Any]:
    return record("nb201", 7) | {"12": record("nb201", 8)["12"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nb201", record("nb201", 6), "it is network 6"),
        ("nats_sss", record("nats_sss", 6), "it is network 6"),
        ("nb201", record("nats_sss", 7), "expected 3 nodes"),
        ("nats_sss", record("nb201", 7), "expected 5 widths"),
        ("nb201", of_two(), "trainings of 2 networks"),
        ("nb201", record("nb201", 7, seeds=()), "has no cifar10/simple-test-200"),
        ("nb201", without("nb201", "200"), "has no cifar10/simple-test-200"),
        ("nats_sss", without("nats_sss", "90"), "has no cifar10/test-90"),
        ("nats_sss", without_set("nats_sss"), "has no cifar10/test-90"),
        ("nats_sss", record("nats_sss", 7, 0.0), "above 0 and up to 100 %, got 0.0"),
        ("nats_sss", record("nats_sss", 7, 100.5), "above 0 and up to 100 %, got 100.5"),
        ("nats_sss", record("nats_sss", 7, float("nan")), "above 0 and up to 100 %, got nan"),
        ("nats_sss", record("nats_sss", 7, "high"), "of another kind"),
        ("nats_sss", {}, "trainings of 0 networks"),
        ("nats_sss", [1], "of another kind"),
        ("nats_sss", None, "of another kind"),
        ("nats_sss", {"90": {"arch_str": 3}}, "expected 5 widths"),
        ("nats_sss", {"90": {"arch_str": "8:8:8:8:64"}}, "has no cifar10/test-90"),
        ("nats_sss", record("nats_sss", 7, np.float32(80)), "torn or not a pickle .*float64"),
        ("nats_sss", record("nats_sss", 7, np.zeros(3)), "nothing was run"),
        ("nats_sss", OrderedDict(x=Evil()), "asks to run builtins.print.*nothing was run"),
        ("nats_sss", b"", "torn or not a pickle"),
        ("nats_sss", b"<!DOCTYPE html>", "no bz2"),
        ("nats_sss", pickle.dumps({}), "no bz2"),
        ("nats_sss", bz2.compress(pickle.dumps(record("nats_sss", 7)))[:-9], "torn or not a pickle"),
        ("nats_sss", bz2.compress(pickle.dumps(list(range(99)))[:50]), "torn or not a pickle"),
        ("nats_sss", bz2.compress(bytes(1 << 25)), "more than 16777216 bytes"),
    ],
)
def test_faults_are_refused_on_one_line_that_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: object, message: str
) -> None:
    path = write(name, tmp_path, 7, content)
    with pytest.raises(DataFileError, match=message) as caught:
        space_at(name, tmp_path).truth("cifar10", DEFAULT[name])
    text = str(caught.value)
    of_the_folder = message.startswith("has no")
    assert str(path.parent if of_the_folder else path) in text
    assert len(text.splitlines()) == 1
    assert not capsys.readouterr().out
    assert (path.parent / ".zcbench").exists() == of_the_folder


@both
def test_duplicate_records_are_refused(name: str, tmp_path: Path) -> None:
    for form in ("{:06d}", "{}"):
        write(name, tmp_path, 7, record(name, 7), form)
    with pytest.raises(DataFileError, match="occurs twice"):
        space_at(name, tmp_path).truth("cifar10", DEFAULT[name])


@both
def test_folder_without_records_is_named(name: str, tmp_path: Path) -> None:
    write(name, tmp_path, 7, {}).unlink()
    with pytest.raises(DataFileError, match="has no records: unpack the simple release") as caught:
        space_at(name, tmp_path).truth("cifar10", DEFAULT[name])
    assert str(folder_of(name, tmp_path)) in str(caught.value)


def test_a_record_with_another_name_is_named(tmp_path: Path) -> None:
    write("nats_sss", tmp_path, 7, record("nats_sss", 7))
    path = write("nats_sss", tmp_path, 8, record("nats_sss", 8), "{}x")
    with pytest.raises(DataFileError, match=path.name):
        space_at("nats_sss", tmp_path).truth("cifar10")
