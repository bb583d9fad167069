from __future__ import annotations

import itertools
import pickle
import random
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from zcbench.errors import AbsentFileError, ConfigError, DataFileError, UnknownNameError
from zcbench.spaces import SPACES
from zcbench.spaces.nb201 import accuracies as nb201_tables
from zcbench.spaces.nb201.network import parse, unique_text

SPACE = SPACES["nb201"](None)
DATA = Path(__file__).parents[3].parent / "shared" / "data"
HEADER = (
    "CIFAR10TestAccuracy200Epochs,CIFAR100TestAccuracy200Epochs,ImageNetTestAccuracy200Epochs,"
    "ArchitectureString,UniqueString\n"
)
#: Accuracies of index i are these plus i / 1000, so that columns and rows cannot be taken for one another.
BASE = {"cifar10": 10, "cifar100": 30, "imagenet16-120": 50}


def line(index: int, accuracy: str | None = None) -> str:
    architecture = SPACE.architecture(index)
    first, *others = (repr(base + index / 1000) for base in BASE.values())
    return ",".join([accuracy or first, *others, architecture, unique_text(parse(architecture))]) + "\n"


LINES = [line(index) for index in range(SPACE.size)]


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "tables" / "nb201" / "nats_bench.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def real() -> Path:
    if not (DATA / "tables" / "nb201" / "nats_bench.csv").is_file():
        pytest.skip(f"the real nats_bench.csv is not in {DATA}")
    return DATA


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder, HEADER + "".join(random.Random(0).sample(LINES, len(LINES))))
    return folder


@pytest.mark.parametrize("which", ["default", "test-200"])
@pytest.mark.parametrize("task", list(BASE))
def test_accuracies_come_by_index(folder: Path, task: str, which: str) -> None:
    truth = SPACES["nb201"](folder).truth(task, which)
    assert truth.name == f"{task}/test-200"
    assert "nats_bench.csv" in truth.label
    assert truth.values.dtype == np.float64
    assert truth.values.tolist() == [BASE[task] + index / 1000 for index in range(SPACE.size)]


def replaced(accuracy: str) -> str:
    return HEADER + "".join([*LINES[:700], line(700, accuracy), *LINES[701:]])


def with_architecture(architecture: str) -> str:
    return HEADER + "".join([*LINES[:700], f"1,1,1,{architecture},0\n", *LINES[701:]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            HEADER.replace("CIFAR10Test", "CIFAR10Valid") + "".join(LINES),
            "expected columns CIFAR10TestAccuracy200Epochs, got CIFAR10Valid",
            id="accuracy column missing",
        ),
        pytest.param(
            HEADER.replace("Architecture", "") + "".join(LINES),
            "expected columns ArchitectureString",
            id="architecture column missing",
        ),
        pytest.param(
            HEADER + "".join(LINES[:9000]) + LINES[9000][:5], "line 9002: .* torn", id="truncated in an accuracy"
        ),
        pytest.param(HEADER + "".join(LINES[:9000]) + LINES[9000][:60], "line 9002: .* torn", id="truncated in a text"),
        pytest.param(HEADER + "".join(LINES[:9000]), "6625 of 15625 networks are missing", id="truncated after a line"),
        pytest.param(HEADER + "".join(LINES[1:]), "1 of 15625 networks are missing", id="first row missing"),
        pytest.param(HEADER, "15625 of 15625 networks are missing", id="header only"),
        pytest.param("", "expected columns .*, got nothing", id="empty"),
        pytest.param("".join(LINES), "expected columns", id="header missing"),
        pytest.param(HEADER + "".join([*LINES, LINES[3]]), "occurs twice", id="duplicate row added"),
        pytest.param(HEADER + "".join([LINES[3], *LINES[:-1]]), "occurs twice", id="duplicate row for another"),
        pytest.param(replaced("0"), "line 702: .*up to 100, got 0;", id="accuracy 0"),
        pytest.param(replaced("-1"), "line 702: .*up to 100, got -1;", id="accuracy below 0"),
        pytest.param(replaced("100.5"), "line 702: .*up to 100, got 100.5;", id="accuracy above 100"),
        pytest.param(replaced("nan"), "line 702: .*up to 100, got nan;", id="accuracy nan"),
        pytest.param(replaced("inf"), "line 702: .*up to 100, got inf;", id="accuracy inf"),
        pytest.param(replaced("high"), "line 702: .*high", id="accuracy is a text"),
        pytest.param(replaced(" "), "line 702: ", id="accuracy blank"),
        pytest.param(with_architecture("|none~0|"), "line 702: .*expected 3 nodes", id="another architecture"),
        pytest.param(with_architecture('"|none~0\n|"'), "line 703: ", id="architecture of two lines"),
        pytest.param("<!DOCTYPE html>\n<html><body>404</body></html>\n", "expected columns", id="HTML page"),
        pytest.param('"<!DOCTYPE html>\n<html>"\n', "expected columns", id="header of two lines"),
        pytest.param(bytes(range(256)) * 8, "not a table of text", id="binary"),
        pytest.param(HEADER.encode() + b"\xff\xfe" * 9, "not a table of text", id="binary after the header"),
        pytest.param(HEADER + '"' + "x" * 200_000, "not a table of text", id="quote never closed"),
    ],
)
def test_faults_are_refused_on_one_line_that_names_the_file(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(DataFileError, match=message) as caught:
        SPACES["nb201"](tmp_path).truth("cifar10", "test-200")
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


#: The columns of nb201_core.csv, every one with accuracies of its own.
CORE = {
    ("cifar10", "valid-200"): "cifar10_valid200",
    ("cifar10", "test-12"): "ep12_cifar10_test",
    ("cifar10", "valid-12"): "ep12_cifar10_valid",
    ("cifar100", "test-12"): "ep12_cifar100_test",
    ("cifar100", "valid-12"): "ep12_cifar100_valid",
    ("imagenet16-120", "test-12"): "ep12_imagenet16_test",
    ("imagenet16-120", "valid-12"): "ep12_imagenet16_valid",
}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("core")
    lines = [",".join(["arch_str", *CORE.values()])]
    for index in random.Random(1).sample(range(SPACE.size), SPACE.size):
        accuracies = (repr(10 + number + index / 100_000) for number in range(len(CORE)))
        lines.append(",".join([SPACE.architecture(index), *accuracies]))
    path = folder / "tables" / "nb201" / "nb201_core.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize(("number", "accuracy"), [*enumerate(CORE)], ids=["/".join(key) for key in CORE])
def test_accuracies_of_the_merged_table_come_by_index(core: Path, number: int, accuracy: tuple[str, str]) -> None:
    truth = SPACES["nb201"](core).truth(*accuracy)
    assert truth.name == "/".join(accuracy)
    assert "nb201_core.csv" in truth.label
    assert accuracy[1].split("-")[1] + " epochs" in truth.label
    assert truth.label.startswith({"valid": "validation", "test": "test"}[accuracy[1].split("-")[0]])
    assert truth.values.tolist() == [10 + number + index / 100_000 for index in range(SPACE.size)]


def test_every_accuracy_of_the_space_can_be_read() -> None:
    folder = real()
    for task, known in SPACE.truths.items():
        assert next(iter(known)) == "test-200"
        for which in known:
            try:
                values = SPACES["nb201"](folder).truth(task, which).values
            except AbsentFileError:
                continue
            # One record in 5,000 is at hand; not every network was trained two or three times.
            partial = "simple" in which or which in {"runs-test-200-2", "runs-test-200-3"}
            assert np.isfinite(values).any() if partial else np.isfinite(values).all(), which


@pytest.mark.parametrize(
    ("task", "which", "expected"),
    [
        # Means over the seeds of NATS-Bench's own records of index 11.
        ("cifar10", "test-200", 91.5833),
        ("cifar10", "valid-200", 87.94),
        ("cifar10", "test-12", 74.0),
        ("cifar10", "valid-12", 63.278),
        ("cifar100", "test-200", 67.6067),
        ("cifar100", "test-12", 32.76),
        ("cifar100", "valid-12", 33.64),
        ("imagenet16-120", "test-200", 30.1667),
        ("imagenet16-120", "test-12", 14.7333),
        ("imagenet16-120", "valid-12", 15.6667),
    ],
)
def test_accuracies_equal_the_benchmarks_records(task: str, which: str, expected: float) -> None:
    assert SPACES["nb201"](real()).truth(task, which).values[11] == pytest.approx(expected, abs=5e-5)


def test_absent_merged_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"nb201_core\.csv is absent: .*NATS-Bench"):
        SPACES["nb201"](tmp_path).truth("cifar100", "valid-12")


def test_absent_file_is_named_with_a_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"nats_bench\.csv is absent: .*ZCBENCH_DATA") as caught:
        SPACES["nb201"](tmp_path).truth("cifar10", "default")
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("task", "which", "suggestion"),
    [
        ("cifar10", "test-20", "did you mean test-200"),
        ("cifar10", "analog-base", "did you mean analog-baseline"),
        ("cifar100", "analog-baseline", "known: robot-test-200, "),
    ],
)
def test_unknown_accuracy(tmp_path: Path, task: str, which: str, suggestion: str) -> None:
    with pytest.raises(UnknownNameError, match=f"'{which}': {suggestion}"):
        SPACES["nb201"](tmp_path).truth(task, which)


@pytest.mark.parametrize("task", ["mnist", "", "CIFAR10"])
def test_unknown_task(tmp_path: Path, task: str) -> None:
    with pytest.raises(ConfigError, match=r"only for cifar10, cifar100, imagenet16-120"):
        SPACES["nb201"](tmp_path).truth(task, "default")


def test_table_of_the_analog_package(tmp_path: Path) -> None:
    truth = SPACES["nb201"](tmp_path).truth("cifar10", "analog-baseline")
    # Importing it would run its code, and needs what it depends on.
    assert "analognasbench" not in sys.modules
    assert truth.name == "cifar10/analog-baseline"
    assert truth.values.shape == (15_625,)
    assert np.isfinite(truth.values).all()
    assert int(truth.values.argmax()) == 13714
    assert truth.values.max() == pytest.approx(94.0664, abs=5e-5)


def test_analog_package_agrees_with_the_official_accuracies(tmp_path: Path) -> None:
    # A wrong order of edges or operations would leave almost no correlation.
    official = SPACES["nb201"](real()).truth("cifar10", "test-200").values
    rho = stats.spearmanr(SPACES["nb201"](tmp_path).truth("cifar10", "analog-baseline").values, official).statistic
    assert round(float(rho), 3) == 0.991


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps([1, 2]), "expected cells with a baseline_accuracy"),
        (pickle.dumps({(9,) * 6: 1.0}), "operation 9"),
        (pickle.dumps({(0,) * 5: 1.0}), "expected six operation numbers"),
        (pickle.dumps({(0,) * 6: 1.0}), "entry .0, 0, 0, 0, 0, 0.: .*another kind"),
        (pickle.dumps({}), "15625 of 15625 networks are missing"),
        (pickle.dumps({(0,) * 6: Path()}), "nothing was run"),
        (b"<!DOCTYPE html>", "torn or not a pickle"),
    ],
    ids=["list", "unknown operation", "five edges", "no record", "empty", "another class", "HTML page"],
)
def test_faults_of_the_analog_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    path = tmp_path / "analog.pkl"
    path.write_bytes(content)
    monkeypatch.setattr(nb201_tables, "find", lambda *_: path)
    with pytest.raises(DataFileError, match=message) as caught:
        SPACES["nb201"](tmp_path).truth("cifar10", "analog-baseline")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("task", "best", "index"), [("cifar10", 94.37, 6111), ("cifar100", 73.51, 9930), ("imagenet16-120", 47.31, 857)]
)
def test_best_official_accuracies(task: str, best: float, index: int) -> None:
    values = SPACES["nb201"](real()).truth(task, "test-200").values
    assert int(values.argmax()) == index
    assert round(float(values.max()), 2) == best


ROBOT = {"cifar10": "cf10", "cifar100": "cf100", "imagenet16-120": "im120"}


def put(folder: Path, name: str, content: object) -> Path:
    path = folder / "tables" / "nb201" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol=4))
    return path


@pytest.mark.parametrize("task", ROBOT)
def test_robots_lists_are_in_index_order(task: str, tmp_path: Path) -> None:
    put(tmp_path, f"nb2_{ROBOT[task]}_test_accuracy.p", [np.float64(1 + index / 1000) for index in range(15_625)])
    truth = SPACES["nb201"](tmp_path).truth(task, "robot-test-200")
    assert truth.values.tolist() == [1 + index / 1000 for index in range(15_625)]
    path = real() / "tables" / "nb201" / f"nb2_{ROBOT[task]}_test_accuracy.p"
    if not path.exists():
        pytest.skip(f"needs {path.name}")
    older, newer = (SPACES["nb201"](real()).truth(task, which).values for which in ("robot-test-200", "test-200"))
    # An older release has fewer seeds; in another order there would be no correlation.
    assert stats.pearsonr(older, newer).statistic > 0.999


def test_runs_of_every_network() -> None:
    if not (real() / "tables" / "nb201" / "nb2_test_acc_cf10.p").exists():
        pytest.skip("needs nb2_test_acc_cf10.p")
    core = pd.read_csv(real() / "tables" / "nb201" / "nb201_core.csv")
    for run, known in ((1, 15_625), (2, 13_400), (3, 7_961)):
        truth = SPACES["nb201"](real()).truth("cifar10", f"runs-test-200-{run}")
        assert np.isfinite(truth.values).sum() == known
        assert truth.label.endswith("dictionary)" if run == 1 else f", {known} of 15625 networks")
        # The merged table has the same trainings, read by somebody else.
        trials = core[f"cifar10_test200_trial{run - 1}"].to_numpy()
        np.testing.assert_allclose(truth.values, trials, atol=5e-3)
    mean = SPACES["nb201"](real()).truth("cifar10", "runs-test-200-mean").values
    assert mean[0] == pytest.approx((85.62 + 86.18 + 85.79) / 3)


def runs(**changes: object) -> dict[tuple[int, ...], object]:
    cells = itertools.product(range(5), repeat=6)
    found: dict[tuple[int, ...], object] = {cell: [50.0, 60.0][: 1 + sum(cell) % 2] for cell in cells}
    found[0, 1, 2, 3, 4, 0] = changes.get("value", [50.0])
    return found


def test_runs_are_keyed_by_operations_in_the_order_of_the_text(tmp_path: Path) -> None:
    put(tmp_path, "nb2_test_acc_cf10.p", runs(value=[12.5, 13.5, 14.5]))
    space = SPACES["nb201"](tmp_path)
    index = space.index("|none~0|+|skip_connect~0|nor_conv_1x1~1|+|nor_conv_3x3~0|avg_pool_3x3~1|none~2|")
    assert [space.truth("cifar10", f"runs-test-200-{run}").values[index] for run in (1, 2, 3)] == [12.5, 13.5, 14.5]
    assert space.truth("cifar10", "runs-test-200-mean").values[index] == 13.5
    assert np.isfinite(space.truth("cifar10", "runs-test-200-3").values).sum() == 1


@pytest.mark.parametrize(
    ("name", "which", "content", "message"),
    [
        ("nb2_cf10_test_accuracy.p", "robot-test-200", [50.0] * 15_624, "expected 15625 accuracies, got 15624"),
        ("nb2_cf10_test_accuracy.p", "robot-test-200", [50.0] * 15_626, "expected 15625 accuracies, got 15626"),
        ("nb2_cf10_test_accuracy.p", "robot-test-200", {}, "expected a list of accuracies, got dict"),
        ("nb2_cf10_test_accuracy.p", "robot-test-200", [50.0] * 15_624 + [0.0], "up to 100, got 0.0"),
        ("nb2_cf10_test_accuracy.p", "robot-test-200", [50.0] * 15_624 + [[]], "of another kind"),
        ("nb2_cf10_test_accuracy.p", "robot-test-200", [np.float32(1)] * 15_625, "expected a number of float64"),
        ("nb2_cf10_test_accuracy.p", "robot-test-200", [Path()] * 15_625, "nothing was run"),
        ("nb2_cf10_test_accuracy.p", "robot-test-200", b"<!DOCTYPE html>", "torn or not a pickle"),
        ("nb2_cf10_test_accuracy.p", "robot-test-200", pickle.dumps([50.0] * 15_625)[:-9], "torn or not a pickle"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", [], "expected trainings by cell, got list"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", {}, "15625 of 15625 networks are missing"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", {(0,) * 5: [50.0]}, "expected six operation numbers"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", {(5,) * 6: [50.0]}, "operation 5"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", {(True,) * 6: [50.0]}, "operation True"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", runs(value=[]), "one to three accuracies, got .]"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", runs(value=[1.0] * 4), "one to three accuracies"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", runs(value=50.0), "one to three accuracies, got 50.0"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", runs(value=[101.0]), "up to 100, got 101.0"),
        ("nb2_test_acc_cf10.p", "runs-test-200-1", runs(value=["x"]), "expected a number, got 'x'"),
        ("nb2_test_acc_cf10.p", "runs-test-200-mean", runs(value=[50.0, 0.0]), "up to 100, got 0.0"),
    ],
)
def test_faults_of_pickled_tables(tmp_path: Path, name: str, which: str, content: object, message: str) -> None:
    path = put(tmp_path, name, content)
    for other in ROBOT.values():  # a source is at hand when its first file is
        if not (path.parent / f"nb2_{other}_test_accuracy.p").exists() and name != f"nb2_{other}_test_accuracy.p":
            put(tmp_path, f"nb2_{other}_test_accuracy.p", [50.0])
    with pytest.raises(DataFileError, match=message) as caught:
        SPACES["nb201"](tmp_path).truth("cifar10", which)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
