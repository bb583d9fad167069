from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from zcbench.__main__ import main
from zcbench.cli import doctor
from zcbench.datasets.files.registry import sources


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    assert main(["doctor", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    return {record["name"]: record for record in records}


def test_every_line_says_what_was_found_and_what_to_do(found: dict[str, dict[str, Any]]) -> None:
    assert found["torch"]["what"] == torch.__version__
    assert found["Python"]["what"] == sys.version.split()[0]
    assert torch.backends.cpu.get_cpu_capability() in found["CPU instructions"]["what"]
    assert {f"data {name}" for name in sources()} <= set(found)
    assert {"GPU", "SLURM", "ray", "W&B", "matplotlib"} <= set(found)
    for name, record in found.items():
        assert set(record) == {"name", "state", "what", "do"}
        assert record["state"] in {"ok", "absent"}, name
        assert record["do"] or record["state"] == "ok", name


def test_files_and_folders_are_looked_for_where_they_are_read(found: dict[str, dict[str, Any]]) -> None:
    folder = found["data folder"]
    assert (folder["state"], Path(folder["what"])) == ("absent", Path("data").absolute())
    assert "ZCBENCH_DATA" in folder["do"]
    assert found["data cifar10"]["state"] == "absent"
    assert "zcbench data get cifar10" in found["data cifar10"]["do"]
    # What is absent is said in words, and not by the word that stands beside it.
    assert found["data cifar10"]["what"] == sources()["cifar10"].what
    assert "absent" not in {record["what"] for record in found.values()}
    assert found["data cifar10-samples"]["state"] == "ok"  # it comes with an installed package


def test_the_table_fits_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("mode", "state", "word"),
    [
        ("online", "ok", "logged in"),
        ("offline", "ok", "not logged in"),
        ("disabled", "absent", "WANDB_MODE is disabled"),
    ],
)
def test_the_mirror_is_as_the_variable_says(mode: str, state: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", mode)
    finding = doctor._wandb()
    assert finding.state == state
    assert word in finding.what
    assert finding.do


def test_a_login_is_known_without_the_network() -> None:
    # A name that cannot be resolved: a request would fail, and so would the line.
    script = (
        "import os, socket\n"
        "os.environ.pop('WANDB_MODE', None); os.environ['WANDB_API_KEY'] = 'a' * 40\n"
        "def refuse(*_, **__): raise AssertionError('a request')\n"
        "socket.create_connection = socket.getaddrinfo = refuse\n"
        "from zcbench.cli import doctor\n"
        "assert doctor._wandb().what.endswith(', logged in'), doctor._wandb()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=120)


def test_a_broken_mirror_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise OSError("no settings")

    monkeypatch.setattr("zcbench.bench.report.tracking.mode", broken)
    finding = doctor._wandb()
    assert (finding.state, finding.do) == ("absent", "use --tracker none")
    assert "gives no settings: no settings" in finding.what
