from __future__ import annotations

import csv
import io
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from zcbench.__main__ import main

Refused = Callable[[list[str]], str]


TINY = ["--sample", "3", "--batch_sizes", "[2]", "--proxies", "[params,naswot]", "--tracker", "none"]


def test_run_prints_a_table_that_fits_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *TINY]) == 0
    output = capsys.readouterr()
    assert max(map(len, output.out.splitlines())) <= 100
    assert "naswot" in output.out
    assert "cifar10/analog-baseline" in output.out
    assert "wandb" not in output.err
    assert list(Path("results/scores").rglob("*.parquet"))


def test_run_of_an_aggregate(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--sample", "4", "--batch_sizes", "[2]", "--proxies", "[vote]", "--tracker", "none"]
    assert main(arguments) == 0
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 100
    assert main([*arguments, "--format", "json"]) == 0
    records = {record["proxy"]: record for record in json.loads(capsys.readouterr().out)}
    assert set(records) == {"vote", "synflow", "jacob_cov", "snip"}
    assert {name: bool(record["pool"]) for name, record in records.items()} == {n: n == "vote" for n in records}
    assert f"vote ranks the pool of {records['vote']['pool']}" in table
    assert main([*arguments, "--format", "csv"]) == 0
    lines = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert {line["proxy"]: line["pool"] for line in lines} == {n: record["pool"] for n, record in records.items()}


def test_run_writes_csv_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *TINY, "--format", "csv"]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["run", *TINY, "--format", "json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [r["proxy"] for r in records] == [r["proxy"] for r in table]
    assert float(table[0]["coverage"]) == records[0]["coverage"]
    # Three networks are too few for a coefficient.
    assert (table[0]["rho"], records[0]["rho"]) == ("nan", None)
    assert records[0]["networks"] == 3
    assert main(["run", *TINY, "--format", "svg"]) == 0
    assert "naswot" in (picture := capsys.readouterr().out)
    assert picture.startswith("<svg")


def test_a_study_can_be_named_or_given_as_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text(
        "version: 1\ndataset: cifar10-samples\naccuracy: analog-baseline\n"
        "proxies: [params]\nsample: 4\nbatch_sizes: [2]\ntracker: none\n"
    )
    assert main(["run", "--config", "mine.yaml", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["networks"] == 4
    for name in ("quickstart", "configs/quickstart.yaml"):
        assert main(["run", f"--config={name}", *TINY, "--format", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 2


SEVERAL = """version: 1
proxies: [params, macs]
batch_sizes: [2]
sample: 5
dataset: cifar10-samples
tracker: none
studies:
- {space: nb201, accuracy: analog-baseline}
- {space: nb_macro}
"""


def test_a_file_of_several_studies(capsys: pytest.CaptureFixture[str]) -> None:
    Path("several.yaml").write_text(SEVERAL)
    assert main(["run", "--config", "several.yaml", "--format", "markdown"]) == 0
    output = capsys.readouterr()
    left_out = "study 2 of 2 is left out and lacks nb-macro: set ZCBENCH_DATA to a folder that has the files, or get "
    assert f"{left_out}them: zcbench data get nb-macro\n" in output.err
    header, rule, *rows = output.out.splitlines()
    assert len(rows) == 2
    assert {line.count("|") for line in (header, rule, *rows)} == {13}
    params = next(row for row in rows if "params" in row)
    # The published values of NUMBERS: NASLib's 9,445 networks.
    assert params.endswith("| .747 | .568 | 9,445, NASLib's scores (NAS-Bench-Suite-Zero), correlations recomputed |")
    assert main(["run", "--config", "several.yaml", "--sample", "4", "--format", "csv"]) == 0
    assert [row["networks"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == ["4", "4"]


def test_faults_in_a_list_of_studies_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    Path("several.yaml").write_text(SEVERAL + "- {space: nb202}\n")
    assert main(["run", "--config", "several.yaml"]) == 2
    assert "did you mean nb201" in capsys.readouterr().err
    assert not Path("results").exists()
    Path("several.yaml").write_text(SEVERAL.replace("analog-baseline", "test-200"))
    assert main(["run", "--config", "several.yaml"]) == 2
    assert not Path("results").exists()


def test_wandb_prints_the_command_that_uploads(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zcbench", "run", *TINY[:-2], "--tracker", "wandb"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "W&B offline; to upload: wandb sync " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--proxies", "[nasvot]"], ["unknown proxy 'nasvot'", "did you mean naswot"]),
        (["--space", "nb210"], ["unknown space 'nb210'", "nb201"]),
        (["--dataset", "cifar"], ["unknown dataset 'cifar'", "cifar10"]),
        (["--accuracy", "best"], ["unknown accuracy", "test-200"]),
        (["--batch_sizes", "[0]"], ["batch_sizes", "1 to 20", "got 0"]),
        (["--batch_sizes", "[-1]"], ["batch_sizes", "1 to 20", "got -1"]),
        (["--batch_sizes", "[64]"], ["batch_sizes", "1 to 20", "got 64"]),
        (["--sample", "20000"], ["sample", "15625", "20000"]),
        (["--sample", "many"], ["sample", "many"]),
        (["--seeds", "[-1]"], ["seeds", "-1"]),
        (["--colour", "red"], ["colour"]),
        (["--tracker", "tensorboard"], ["tracker", "tensorboard"]),
        (["--config", "absent.yaml"], ["config", "absent.yaml", "zcbench list studies"]),
        (["--workers", "0"], ["workers", "0"]),
        (["--dataset", "cifar10"], ["cifar-10-batches-py", "absent", "download", "ZCBENCH_DATA"]),
        (["--accuracy", "test-200"], ["nats_bench.csv", "absent", "download"]),
    ],
    ids=str,
)
def test_bad_arguments_are_one_line(arguments: list[str], words: list[str], refused: Refused) -> None:
    line = refused(["run", *arguments])
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sample: 3\n", ["version: 1"]),
        ("version: 2\n", ["version 2", "version: 1"]),
        ("version: 1\ncolour: red\n", ["colour"]),
        ("version: 1\nsample: [1\n", ["cannot read"]),
        ("version: 1\ntrainer:\n  devices: 4\n", ["trainer", "expected workers"]),
        ("- version: 1\n", ["version"]),
    ],
    ids=str,
)
def test_bad_configurations_are_one_line(text: str, words: list[str], refused: Refused) -> None:
    Path("bad.yaml").write_text(text)
    line = refused(["run", "--config", "bad.yaml"])
    assert all(word in line for word in words), line


class Hostile:
    def __reduce__(self) -> tuple[object, ...]:
        return Path("canary").touch, ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pickle.dumps({"data": Hostile(), "labels": []}), ["asks to run", "nothing was run"]),
        (b"<html>404</html>", ["torn or not a pickle"]),
        (b"", ["torn or not a pickle"]),
        (pickle.dumps({"images": []}), ["expected a dictionary with data and labels"]),
        (pickle.dumps(list(range(9)))[:-3], ["torn or not a pickle"]),
    ],
    ids=["hostile", "html", "empty", "other keys", "truncated"],
)
def test_bad_images_are_one_line_and_never_run(content: bytes, words: list[str], refused: Refused) -> None:
    path = Path("data/cifar-10-batches-py/data_batch_1")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    line = refused(["run", "--dataset", "cifar10"])
    assert "data_batch_1" in line
    assert all(word in line for word in words), line
    assert not Path("canary").exists()


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "<html>", ""])
def test_bad_tables_are_one_line(content: str, refused: Refused) -> None:
    path = Path("data/tables/nb201/nats_bench.csv")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert "expected columns" in refused(["run", "--accuracy", "test-200"])


def test_an_unwritable_results_folder_is_one_line(refused: Refused) -> None:
    Path("file").touch()
    assert "cannot write to file/results" in refused(["run", *TINY, "--out", "file/results"])


def test_results_of_a_newer_version_are_left_alone(refused: Refused) -> None:
    Path("newer").mkdir()
    Path("newer/zcbench.json").write_text('{"format": 99}')
    line = refused(["run", *TINY, "--out", "newer"])
    assert "format 99" in line
    assert "upgrade zcbench" in line
    assert [path.name for path in Path("newer").iterdir()] == ["zcbench.json"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            TINY,
            "3 networks of nb201 on cifar10-samples, accuracy cifar10/analog-baseline, 2 proxies, batch size 2, seed 0",
        ),
        (
            [*TINY, "--dataset", "noise-cifar10", "--seeds", "[0,3]"],
            "3 networks of nb201 on noise-cifar10, accuracy cifar10/analog-baseline, 2 proxies, batch size 2, seed 0 3",
        ),
    ],
    ids=["as it is", "another data set"],
)
def test_the_first_line_says_what_a_run_without_a_configuration_stands_on(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments]) == 0
    assert capsys.readouterr().err.splitlines()[0] == f"study quickstart: {line}"


def test_the_first_line_names_a_file_and_the_place_of_a_study_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.yaml").write_text(SEVERAL.replace("space: nb_macro", "accuracy: analog-baseline, sample: 4"))
    assert main(["run", "--config", "two.yaml", "--proxies", "params"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("study ")]
    assert lines == [
        "study two.yaml (1 of 2): 5 networks of nb201 on cifar10-samples, accuracy cifar10/analog-baseline, 1 proxy, "
        "batch size 2, seed 0",
        "study two.yaml (2 of 2): 4 networks of nb201 on cifar10-samples, accuracy cifar10/analog-baseline, 1 proxy, "
        "batch size 2, seed 0",
    ]


def test_help_shows_the_defaults_that_a_run_has() -> None:
    command = [sys.executable, "-m", "zcbench", "run", "--help"]
    shown = " ".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "default: cifar10-samples" in shown
    assert "default: analog-baseline" in shown
    assert "default: [16]" in shown


@pytest.mark.parametrize(
    ("option", "value", "several"),
    [
        ("--proxies", "params", "[params]"),
        ("--proxies", "params,macs", "[params,macs]"),
        ("--batch_sizes", "3", "[3]"),
        ("--seeds", "5", "[5]"),
    ],
)
def test_a_value_that_stands_alone_is_a_list_of_one(
    option: str, value: str, several: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for given in (value, several):
        assert main(["run", *TINY, option, given, "--format", "csv"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


OWN = """
from zcbench import reads, register
from zcbench.proxies.passes import PARAMETERS

@register("{name}", paper="a test")
def f(parameters=reads(PARAMETERS)) -> float:
    \"\"\"Count.\"\"\"
    return {value}
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[[str, str], str]]:
    names: list[str] = []

    def write(name: str, value: str) -> str:
        names.append(name)
        (tmp_path / f"{name}.py").write_text(OWN.format(name=name, value=value))
        return str(tmp_path / f"{name}.py")

    yield write
    for name in names:
        sys.modules.pop(name, None)


FEW = ["run", "--sample", "4", "--batch_sizes", "[2]", "--tracker", "none"]


def test_a_run_whose_scores_failed_returns_4(
    own: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = own("own_failing", "1 / 0")
    for _ in range(2):  # the second run tries again
        assert main([*FEW, "--include", file, "--proxies", "own_failing,params"]) == 4
        errors = capsys.readouterr().err.splitlines()
        assert "zcbench: 4 of 8 scores failed; the same command tries them again" in errors
        assert any("proxy own_failing: 4 error of 4 scores: ZeroDivisionError" in line for line in errors)


def test_a_leaderboard_of_runs_with_and_without_an_own_proxy(
    own: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before: "4 of 8 scores are missing", since the newer run did not know the content of the own file."""
    file = own("own_counting", "float(sum(p.numel() for p in parameters.values()))")
    assert main([*FEW, "--include", file, "--proxies", "own_counting"]) == 0
    assert main([*FEW, "--proxies", "params"]) == 0
    assert main(["leaderboard", "--results", "results", "--out", "board"]) == 0
    assert "own_counting" in Path("board", "leaderboard.md").read_text("utf-8")


def test_two_lists_of_files_to_include_are_refused(own: Callable[[str, str], str], refused: Refused) -> None:
    """Before: the first was replaced by the second without a word."""
    files = [own("own_one", "1.0"), own("own_two", "2.0")]
    line = refused([*FEW, "--include", files[0], f"--include={files[1]}"])
    assert "include: expected one list, got 2: use --include one.py,two.py" in line


def test_a_score_that_fails_returns_1(own: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]) -> None:
    file = own("own_broken", "1 / 0")
    arguments = ["score", "--arch", "6111", "--batch_size", "2", "--include", file, "--proxies", "own_broken,params"]
    assert main(arguments) == 1
    assert main([*arguments, "--json"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out
