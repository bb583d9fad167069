from __future__ import annotations

import json
from pathlib import Path

import pytest
from zcbench.__main__ import main

GOOD = '''
from zcbench import reads, register
from zcbench.proxies.passes import LOSS, Layers

@register("{name}", paper="a test")
def f(layers: Layers = reads(LOSS)) -> float:
    """Take the largest gradient."""
    return {value}
'''
ARGUMENTS = ["--networks", "3", "--batch_size", "2"]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def write(file: str, value: str) -> str:
        Path(f"{file}.py").write_text(GOOD.format(name=file, value=value))
        return f"{file}.py"

    return write


def test_a_sound_proxy_holds(written, capsys: pytest.CaptureFixture[str]) -> None:
    file = written("checked_good", "max(float(g.abs().max()) for _, g in layers)")
    assert main(["check-proxy", file, *ARGUMENTS, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["proxy"] == "checked_good"
    assert found["faults"] == 0
    assert len(found["findings"]) == 6
    assert "tau" not in found  # three networks are too few


def test_a_fault_is_named_in_the_table(written, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-proxy", written("checked_none", "None"), *ARGUMENTS]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "checked_none on 3 networks" in out
    assert "returned NoneType" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--space", "nb20l"], "did you mean nb201"),
        (["--networks", "0"], "expected 1 to 15625"),
        (["--seed", "-1"], "seed: expected 0 to"),
        (["--accuracy", "tset", "--networks", "2"], "unknown accuracy"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: list[str], reason: str, written, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(f"checked_bad{len(reason)}", "1.0")
    assert main(["check-proxy", file, *arguments]) == 2
    err = capsys.readouterr().err.splitlines()
    assert reason in err[-1]


@pytest.mark.parametrize(("file", "reason"), [("absent.py", "expected a Python file"), ("no_proxies.py", "a new name")])
def test_files_without_a_proxy_are_one_line(
    file: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("no_proxies.py").write_text("")
    assert main(["check-proxy", file]) == 2
    (err,) = capsys.readouterr().err.splitlines()
    assert reason in err
