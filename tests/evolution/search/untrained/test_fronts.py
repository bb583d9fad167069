"""Fronts that searches find, beside the true front."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table
from zcbench.evolution.search.config import SearchConfig
from zcbench.evolution.search.search import search


def printed(tables: list[Table]) -> str:
    console = Console(file=io.StringIO(), width=80)
    for table in tables:
        console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_fronts_are_compared_with_the_true_front(config: SearchConfig) -> None:
    """Wider networks are larger and more accurate, so all forty are on the true front."""
    config = dataclasses.replace(config, method="nsga2,nsga2.random", evaluations=12, population=4, objective="params")
    tables, notes, _ = search(config)
    text = printed(tables)
    assert max(map(len, text.splitlines())) <= 80
    for words in ("nsga2 params", "the true front has 40 of 40 networks", "hypervolume of cifar10/test-made"):
        assert words in " ".join(text.split())
    path = Path(config.out, "fronts.json")
    assert f"fronts: {path}" in notes
    records = json.loads(path.read_text())
    assert len(records) == 2 * 3
    params = [width * 27 + width + 2 * width + (width + 1) * 10 for width in range(1, 41)]
    for record in records:
        places = [int(network.split()[1]) for network in record["networks"]]
        assert len(places) == 12  # nothing dominates a network here
        assert record["sizes"] == sorted(record["sizes"]) == [params[place] for place in places]
        area = np.array([params[p] for p in [*places[1:], 39]]) - record["sizes"]
        whole = sum((place + 0.0) * (after - params[place]) for place, after in enumerate(params[1:]))
        assert record["share"] == pytest.approx(float((area * places).sum()) / whole)
