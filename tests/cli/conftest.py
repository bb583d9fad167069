from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from zcbench.__main__ import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZCBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist may set it


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[[list[str]], str]:
    """A function that runs a command, which has to fail as a user error, and returns its one line."""

    def run(arguments: list[str]) -> str:
        assert main(arguments) == 2
        output = capsys.readouterr()
        assert output.out == ""
        lines = output.err.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("zcbench: ")
        assert not Path("results").exists()
        return lines[0]

    return run
