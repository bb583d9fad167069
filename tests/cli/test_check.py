from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zcbench
from zcbench.cli.check import _is_writable

BASELINE = Path(zcbench.__file__).parent / "tests" / "baselines" / "nb201.json"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "expected settings by name as config, got a list"),
        ({"bogus": 1}, "unknown settings bogus"),
        ({"seeds": None}, "seeds: expected a value, got null"),
        ({"sample": "x"}, "sample"),
        ({"trainer": 5}, "unknown settings trainer"),
    ],
    ids=str,
)
def test_settings_of_a_baseline_that_are_none(config: Any, message: str, refused: Callable[[list[str]], str]) -> None:
    document = json.loads(BASELINE.read_text("utf-8"))
    document["config"] = document["config"] | config if isinstance(config, dict) else config
    Path("baseline.json").write_text(json.dumps(document))
    assert message in refused(["check", "--baseline", "baseline.json"])


def test_a_file_is_opened_and_a_baseline_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "summary.md"
    file.touch()
    # The superuser may write anywhere, so what others may is made up.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) == file)
    assert _is_writable(file, replaced=False)
    assert not _is_writable(file, replaced=True)
    assert not _is_writable(tmp_path / "new.md", replaced=False)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) == tmp_path)
    assert not _is_writable(file, replaced=False)
    assert _is_writable(file, replaced=True)
    assert _is_writable(tmp_path / "new" / "baseline.json", replaced=True)
