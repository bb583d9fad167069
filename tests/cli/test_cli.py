from __future__ import annotations

import csv
import hashlib
import io
import json
import pickle
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from zcbench.__main__ import main
from zcbench.datasets.files.registry import Archive, DataFile, Records, Source, sources
from zcbench.registry import Registry

BEST = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"
TINY = ["--sample", "3", "--batch_sizes", "[2]", "--proxies", "[params,naswot]", "--tracker", "none"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZCBENCH_DATA", str(tmp_path / "data"))


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that has to fail as a user error; return its one line."""
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("zcbench: ")
    assert not Path("results").exists()
    return lines[0]


def test_help_is_quick_and_loads_no_torch() -> None:
    script = (
        "import sys; from zcbench.__main__ import main\n"
        "try: main(['run', '--help'])\n"
        "finally: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", "zcbench", "--help"], check=True, capture_output=True)
    assert time.monotonic() - start < 5  # 0.2 s on an idle machine; the bound only catches an import of torch


def test_run_prints_a_table_that_fits_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *TINY]) == 0
    output = capsys.readouterr()
    assert max(map(len, output.out.splitlines())) <= 100
    assert "naswot" in output.out
    assert "cifar10/analog-baseline" in output.out
    assert "wandb" not in output.err
    assert list(Path("results/scores").glob("*.parquet"))


NAN = float("nan")


@pytest.mark.parametrize(
    ("rho", "low", "high", "top", "cells"),
    [
        (-0.4567, -0.567, -0.345, -0.25, ["-.457", "[-.57", "-.34]", "-.457", "[-.57", "-.34]", "-.25|-.25"]),
        (-0.4567, -0.567, -0.345, -1.0, ["-.457", "[-.57", "-.34]", "-.457", "[-.57", "-.34]", "-1.00|-1.00"]),
        (-1.0, -1.0, -1.0, NAN, ["-1.000", "[-1.00", "-1.00]", "-1.000", "[-1.00", "-1.00]", "nan|", "nan"]),
    ],
    ids=["many networks", "a top of three", "three networks"],
)
def test_the_table_fits_100_columns_for_every_name(
    rho: float, low: float, high: float, top: float, cells: list[str]
) -> None:
    from rich.console import Console
    from zcbench.bench.report.table import terminal
    from zcbench.bench.results.ranking import Ranking
    from zcbench.bench.stats.correlation import Correlation
    from zcbench.proxies import AGGREGATES, PROXIES
    from zcbench.proxies.registry import costs

    names = [*PROXIES, *AGGREGATES]
    slowest = max(costs().values())
    pools = {name: "15625 networks 01234567" for name in AGGREGATES}
    rankings = [
        Ranking(
            space="nb201",
            dataset="imagenet16-120",
            accuracy="imagenet16-120/test-200",
            protocol="2",
            device="cuda",
            proxy=name,
            version=1,
            batch_size=128,
            seeds=(0, 1, 2),
            networks=15_625,
            coverage=1.0,
            failures={},
            ms=slowest,
            pool=pools.get(name, ""),
            correlation=Correlation(15_625, rho, low, high, rho, low, high, top, top, top, top, 1.0),
        )
        for name in names
    ]
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(terminal(rankings, "top-1 accuracy on the test images"))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    for heading in ("Spearman ρ [95 %]", "Kendall τ [95 %]", "τ top"):
        assert heading in text
    lines = [line.split() for line in text.splitlines()]
    for name in names:
        assert [name, "128", *cells, "100%", f"{slowest:.0f}"] in lines
    for name, pool in pools.items():
        assert f"{name} ranks the pool of {pool}" in text


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
    assert float(table[0]["rho"]) == records[0]["rho"]
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
    assert "study 2 of 2 is left out: data file " in output.err
    assert "get nb-macro" in output.err
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
    assert "tracked offline; to upload: wandb sync " in done.stderr


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
        (["--trainer.devices", "0"], ["devices", "0"]),
        (["--dataset", "cifar10"], ["cifar-10-batches-py", "absent", "download", "ZCBENCH_DATA"]),
        (["--accuracy", "test-200"], ["nats_bench.csv", "absent", "download"]),
    ],
    ids=str,
)
def test_bad_arguments_are_one_line(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(["run", *arguments], capsys)
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sample: 3\n", ["version: 1"]),
        ("version: 2\n", ["version 2", "version: 1"]),
        ("version: 1\ncolour: red\n", ["colour"]),
        ("version: 1\nsample: [1\n", ["cannot read"]),
        ("version: 1\ntrainer:\n  wheels: 4\n", ["wheels"]),
        ("- version: 1\n", ["version"]),
    ],
    ids=str,
)
def test_bad_configurations_are_one_line(text: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.yaml").write_text(text)
    line = refused(["run", "--config", "bad.yaml"], capsys)
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
def test_bad_images_are_one_line_and_never_run(
    content: bytes, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("data/cifar-10-batches-py/data_batch_1")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    line = refused(["run", "--dataset", "cifar10"], capsys)
    assert "data_batch_1" in line
    assert all(word in line for word in words), line
    assert not Path("canary").exists()


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "<html>", ""])
def test_bad_tables_are_one_line(content: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("data/tables/nb201/nats_bench.csv")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert "expected columns" in refused(["run", "--accuracy", "test-200"], capsys)


def test_an_unwritable_results_folder_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").touch()
    assert "cannot write to file/results" in refused(["run", *TINY, "--out", "file/results"], capsys)


def test_results_of_a_newer_version_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("newer").mkdir()
    Path("newer/zcbench.json").write_text('{"format": 99}')
    line = refused(["run", *TINY, "--out", "newer"], capsys)
    assert "format 99" in line
    assert "upgrade zcbench" in line
    assert [path.name for path in Path("newer").iterdir()] == ["zcbench.json"]


def test_score_of_a_benchmark_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--arch", BEST, "--batch_size", "4", "--json"]) == 0
    by_text = json.loads(capsys.readouterr().out)
    assert main(["score", "--arch", "6111", "--batch_size", "4", "--json"]) == 0
    by_index = json.loads(capsys.readouterr().out)
    assert [s["value"] for s in by_index["scores"]] == [s["value"] for s in by_text["scores"]]
    assert {s["proxy"]: s["value"] for s in by_text["scores"]}["params"] == 1_073_466
    assert main(["score", "--arch", BEST, "--batch_size", "4", "--proxies", "[params,zen]"]) == 0
    assert "1.07347e+06" in capsys.readouterr().out


def test_score_equals_the_study(capsys: pytest.CaptureFixture[str]) -> None:
    from zcbench.bench.scoring.store import Store

    assert main(["run", "--sample", "1", "--batch_sizes", "[2]", "--tracker", "none", "--format", "csv"]) == 0
    rows = Store(Path("results")).read()
    capsys.readouterr()
    assert main(["score", "--arch", rows["architecture"][0], "--batch_size", "2", "--json"]) == 0
    scores = {s["proxy"]: s["value"] for s in json.loads(capsys.readouterr().out)["scores"]}
    assert len(rows) == 12
    assert {row.proxy: row.value for row in rows.itertuples()} == {name: scores[name] for name in rows["proxy"]}


def test_score_of_your_own_network(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my_nets.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8), nn.ReLU(), nn.Linear(8, 10))\n"
        "def wrong():\n"
        "    return 3\n"
    )
    assert main(["score", "my_nets:build", "--json"]) == 0
    scores = {s["proxy"]: s for s in json.loads(capsys.readouterr().out)["scores"]}
    assert scores["params"]["value"] == 3072 * 8 + 8 + 90
    assert scores["zen"]["status"] == "not_applicable"
    assert scores["zen"]["value"] is None
    for bad, word in (("my_nets:absent", "absent"), ("nowhere:build", "nowhere"), ("my_nets", "MODULE:FACTORY")):
        assert word in refused(["score", bad], capsys)
    assert "int" in refused(["score", "my_nets:wrong"], capsys)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "either MODULE:FACTORY or --arch"),
        (["--arch", "|none~0|"], "expected 3 nodes"),
        (["--arch", BEST.replace("1x1", "2x2")], "unknown operation 'nor_conv_2x2'"),
        (["--arch", "15625"], "expected 0 to 15624"),
        (["--arch", BEST, "--batch_size", "0"], "1 to 20"),
        (["--arch", BEST, "--seed", "-1"], "seed: expected 0 to"),
        (["--arch", BEST, "--proxies", "[xen]"], "did you mean zen"),
        (["--arch", BEST, "--proxies", "[az_nas]"], "use `zcbench run`"),
    ],
    ids=str,
)
def test_bad_networks_are_one_line(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert word in refused(["score", *arguments], capsys)


@pytest.mark.parametrize("kind", ["proxies", "spaces", "datasets", "studies"])
def test_lists(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 100
    assert main(["list", kind, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert all(record["name"] in table for record in records)


def test_the_list_of_proxies_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    from zcbench.proxies import AGGREGATES, PROXIES

    assert main(["list", "proxies"]) == 0
    assert "…" not in capsys.readouterr().out
    assert main(["list", "proxies", "--json"]) == 0
    records = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    assert list(records) == sorted([*PROXIES, *AGGREGATES])
    kinds = {
        "name": str,
        "version": int,
        "direction": str,
        "reads": list,
        "fwd": int,
        "bwd": int,
        "batch": int,
        "ms": float | int | None,
        "paper": str,
        "summary": str,
    }
    for record in records.values():
        assert list(record) == list(kinds)
        assert all(isinstance(record[field], kind) for field, kind in kinds.items()), record
        assert record["direction"] in {"higher", "lower"}
        assert record["paper"]
        assert record["summary"].endswith(".")
    assert records["vote"]["reads"] == ["synflow", "jacob_cov", "snip"]
    assert records["ntk_condition"]["direction"] == "lower"


def test_data_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "where"]) == 0
    shown = capsys.readouterr().out
    assert str(Path("data").absolute()) in shown
    assert "ZCBENCH_DATA is set" in shown


def test_the_table_of_data_fits_100_columns_and_breaks_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines()[1:])) <= 100
    for source in sources().values():
        assert f" {source.name} " in shown
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
    assert "get it anew" in shown[-1]


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
def test_bad_downloads_are_one_line(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert word in refused(["data", *arguments], capsys)


def test_packages_are_not_downloaded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["data", "get", "cifar10-samples"]) == 0
    assert "there already" in capsys.readouterr().out
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    line = refused(["data", "get", "cifar10-samples"], capsys)
    assert 'cannot be downloaded by zcbench: install the extra: pip install "zcbench[quickstart]"' in line


def test_data_get(small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "move it away first" in refused(["data", "get", "two"], capsys)


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


def test_no_command_and_a_wrong_one(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["fly"]):
        assert "zcbench --help" in refused(arguments, capsys)
