"""What searches by scores find, as tables, descriptions and fronts."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from zcbench.errors import ConfigError, ResultsError
from zcbench.evolution.search.config import SearchConfig
from zcbench.evolution.search.search import search


def printed(tables: list[Table]) -> str:
    console = Console(file=io.StringIO(), width=80)
    for table in tables:
        console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_the_best_network_is_printed_and_described(config: SearchConfig) -> None:
    """The space has forty networks, of which `wide 39` has the most parameters."""
    config = dataclasses.replace(config, method="zen,zen.random", evaluations=400, proposals=5, population=12)
    tables, notes, _ = search(config)
    text = printed(tables)
    assert max(map(len, text.splitlines())) <= 80
    assert "wide 39" in text
    out = Path(config.out)
    assert {path.name for path in out.iterdir()} == {
        "found.json",
        "search.json",
        *(f"{name}_params.{kind}" for name in ("zen", "zen_random") for kind in ("json", "py")),
    }
    assert notes[0] == f"network: {out / 'zen_params.json'}; its function build: {out / 'zen_params.py'}"
    description = json.loads((out / "zen_params.json").read_text())
    assert (description["space"], description["architecture"], description["task"]) == ("wide", "wide 39", "cifar10")
    assert description["found"]["score"] == description["found"]["params"] == 40 * 27 + 40 + 2 * 40 + 41 * 10
    recipe = json.loads((out / "search.json").read_text())
    assert (recipe["config"]["evaluations"], recipe["outcomes"], recipe["test"]) == (400, [], None)
    assert recipe["scores"]["params"]["batch_size"] == 2
    records = json.loads((out / "found.json").read_text())
    assert [(record["search"], record["repeat"]) for record in records] == [
        (name, repeat) for name in ("zen params", "zen.random params") for repeat in range(3)
    ]
    spec = importlib.util.spec_from_file_location("zen_params", out / "zen_params.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert sum(parameter.numel() for parameter in module.build().parameters()) == description["found"]["params"]


def test_limits_hold_for_what_is_found(config: SearchConfig) -> None:
    limit = 10 * 27 + 10 + 2 * 10 + 11 * 10
    search(dataclasses.replace(config, method="zen", evaluations=60, proposals=5, population=12, max_params=limit))
    assert json.loads(Path(config.out, "zen_params.json").read_text())["architecture"] == "wide 9"


def test_searches_that_find_nothing_are_refused_on_one_line(config: SearchConfig) -> None:
    with pytest.raises(ConfigError, match=r"^zen: none of 0 networks that keep the limits has a score: expected wider"):
        search(dataclasses.replace(config, method="zen", population=12, evaluations=5, max_params=27 + 1 + 2 + 20))
    with pytest.raises(ConfigError, match=r"got snip, which failed on all"):
        search(dataclasses.replace(config, method="zen", population=12, space="broken", proxy="snip", evaluations=20))
    Path(config.out).write_text("a file")
    with pytest.raises(ResultsError, match=r"^out: cannot write to .* choose another folder$"):
        search(dataclasses.replace(config, method="zen", population=12, evaluations=5))
