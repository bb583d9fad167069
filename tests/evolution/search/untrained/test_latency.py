"""Latencies: measured, kept in a table, and held against a limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ConfigError, DataFileError
from zcbench.evolution.search.config import SearchConfig
from zcbench.evolution.search.untrained.latency import Latencies
from zcbench.evolution.search.untrained.limits import Limits, limits
from zcbench.spaces import SPACES
from zcbench.spaces.zen.space import NAMED

TASK = TASKS["cifar100"]
START = NAMED["start-cifar"]


def allowed(latencies: str) -> Limits:
    return limits(SearchConfig(max_latency_ms=3.25, latencies=latencies), SPACES["zen_plain"](None), TASK)


def test_latencies_are_kept_in_a_table(tmp_path: Path) -> None:
    path, space = tmp_path / "latencies.json", SPACES["zen"](None)
    first = Latencies(space, TASK, path).of(START)
    assert first > 0
    assert json.loads(path.read_text()) == {START: first}
    assert Latencies(space, TASK, path).of(START) == first
    path.write_text(json.dumps({START: 3.5}))
    assert Latencies(space, TASK, path).of(START) == 3.5
    fault = "max_latency_ms: expected at most 3.25, got 3.5"
    assert allowed(str(path)).broken(START) == fault


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": "b"}', '{"a": -1}', '{"a": true}', '{"a": NaN}'])
def test_faulty_tables_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "latencies.json"
    path.write_text(content)
    with pytest.raises(DataFileError, match=r"latencies.json: expected "):
        Latencies(SPACES["zen"](None), TASK, path)


def test_a_latency_without_a_table_is_refused() -> None:
    """Without a table, a search could not be repeated."""
    with pytest.raises(ConfigError, match=r"add --latencies FILE$"):
        allowed("").broken(START)
