from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from zcbench.__main__ import main

Refused = Callable[[list[str]], str]


BEST = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"


def test_score_of_a_benchmark_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--arch", BEST, "--batch_size", "2", "--json"]) == 0
    by_text = json.loads(capsys.readouterr().out)
    few = ["--proxies", "grad_norm,synflow,naswot"]
    assert main(["score", "--arch", "6111", "--batch_size", "2", "--json", *few]) == 0
    by_index = json.loads(capsys.readouterr().out)["scores"]
    assert len(by_index) == 3
    assert all(score["value"] in {s["value"] for s in by_text["scores"]} for score in by_index)
    assert {s["proxy"]: s["value"] for s in by_text["scores"]}["params"] == 1_073_466
    assert main(["score", "--arch", BEST, "--batch_size", "4", "--proxies", "[params,zen]"]) == 0
    assert "1.07347e+06" in capsys.readouterr().out


def test_score_equals_the_study(capsys: pytest.CaptureFixture[str], every_row: Callable[[Path], pd.DataFrame]) -> None:

    assert main(["run", "--sample", "1", "--batch_sizes", "[2]", "--tracker", "none", "--format", "csv"]) == 0
    rows = every_row(Path("results"))
    capsys.readouterr()
    assert main(["score", "--arch", rows["architecture"][0], "--batch_size", "2", "--json"]) == 0
    scores = {s["proxy"]: s["value"] for s in json.loads(capsys.readouterr().out)["scores"]}
    assert len(rows) == 12
    assert {row.proxy: row.value for row in rows.itertuples()} == {name: scores[name] for name in rows["proxy"]}


def test_score_of_your_own_network(capsys: pytest.CaptureFixture[str], refused: Refused) -> None:
    Path("my_nets.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8), nn.ReLU(), nn.Linear(8, 10))\n"
        "def wrong():\n"
        "    return 3\n"
        "def wants(width):\n"
        "    return nn.Linear(width, 2)\n"
        "def leaves():\n"
        "    raise SystemExit(0)\n"
        "def raises():\n"
        "    raise OSError('no disk\\nno luck')\n"
    )
    assert main(["score", "my_nets:build", "--json"]) == 0
    scores = {s["proxy"]: s for s in json.loads(capsys.readouterr().out)["scores"]}
    assert scores["params"]["value"] == 3072 * 8 + 8 + 90
    assert scores["zen"]["status"] == "not_applicable"
    assert scores["zen"]["value"] is None
    for bad, word in (("my_nets:absent", "absent"), ("nowhere:build", "nowhere"), ("my_nets", "MODULE:FACTORY")):
        assert word in refused(["score", bad])
    assert "int" in refused(["score", "my_nets:wrong"])
    line = refused(["score", "my_nets:wants"])
    assert "my_nets:wants raises TypeError (wants() missing 1 required positional argument: 'width')" in line
    assert "expected a function without arguments" in line
    assert "raises OSError (no disk no luck)" in refused(["score", "my_nets:raises"])
    assert "raises SystemExit" in refused(["score", "my_nets:leaves"])
    assert "either MODULE:FACTORY or --arch" in refused(["score", ""])


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
def test_bad_networks_are_one_line(arguments: list[str], word: str, refused: Refused) -> None:
    assert word in refused(["score", *arguments])


def test_score_of_a_network_that_a_search_has_written(capsys: pytest.CaptureFixture[str], refused: Refused) -> None:
    start = "SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,2,8,1)"
    description = {"space": "zen", "architecture": start, "task": "cifar10"}
    Path("best.json").write_text(json.dumps(description))
    options = ["--proxies", "params,zen", "--batch_size", "2", "--json"]
    assert main(["score", "best.json", *options]) == 0
    by_file = json.loads(capsys.readouterr().out)["scores"]
    assert main(["score", "--space", "zen", "--arch", start, *options]) == 0
    by_text = json.loads(capsys.readouterr().out)["scores"]
    assert [score["value"] for score in by_file] == [score["value"] for score in by_text]
    assert "expected JSON with the texts" in refused(["score", "absent.json"])
