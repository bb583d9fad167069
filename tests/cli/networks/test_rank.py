from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from zcbench.__main__ import main

Refused = Callable[[list[str]], str]
Output = pytest.CaptureFixture[str]

NETS = """
import os
from torch import nn

def small():
    return net(4)

def large():
    return net(16)

def net(width):
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), *head(width))

def smooth():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), *head(8))

def _hidden():
    raise AssertionError
"""
HEAD = """
def head(width, classes=10):
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)
"""
BAD = """
def broken():
    raise ValueError("no [weights]")

def dies():
    os._exit(7)

def number():
    return 3

def prints():
    print("noise")
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
"""
LISTED = NETS + HEAD + "\nnetworks = {'built': net(4), 'function': small}\n"


@pytest.fixture(autouse=True)
def _own(tmp_path: Path) -> Iterator[None]:
    path = sys.path[:]
    (tmp_path / "my_ranked.py").write_text(NETS + HEAD.replace("width, classes=10", "width").replace("classes", "10"))
    (tmp_path / "my_bad.py").write_text(NETS + HEAD.replace("classes=10", "classes") + BAD)
    (tmp_path / "my_listed.py").write_text(LISTED)
    yield
    for name in ("my_ranked", "my_bad", "my_listed"):
        sys.modules.pop(name, None)
    sys.path[:] = path


def ranked(capsys: Output, *arguments: str, status: int = 0) -> dict[str, Any]:
    assert main(["rank", *arguments, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def without_time(found: dict[str, Any]) -> dict[str, Any]:
    for network in found["networks"]:
        network.pop("wall_s")
    return found


def test_the_functions_of_a_file_are_ranked(capsys: Output) -> None:
    found = ranked(capsys, "my_ranked.py")
    names = [network["network"] for network in found["networks"]]
    assert names == ["small", "large", "smooth"]
    # A convolution of 27 w weights and w biases, a batch norm of 2 w, a linear map of 10 w and ten biases.
    assert [network["params"] for network in found["networks"][:2]] == [40 * 4 + 10, 40 * 16 + 10]
    assert found["ranked_by"] == ["synflow", "jacob_cov", "snip", "zico"]
    smooth = found["networks"][2]["scores"]["naswot"]
    assert smooth == {"value": None, "rank": None, "status": "not_applicable: the network lacks a ReLU"}
    assert main(["rank", "my_ranked.py"]) == 0
    table = capsys.readouterr().out
    assert "n/a" in table
    assert " s mean rank" in table  # the column was called rank, and holds 1.50
    assert "naswot: not_applicable: the network lacks a ReLU (smooth)" in table
    assert main(["rank", "my_ranked.py", "--format", "csv", "--proxies", "snip,vote"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(rows[0]) == ["network", "params", "macs", "snip", "vote", "wall_s", "mean_rank"]
    assert {row["network"] for row in rows} == set(names)


def test_scores_are_those_of_zcbench_score_for_any_number_of_workers(capsys: Output) -> None:
    one = without_time(ranked(capsys, "my_ranked.py", "--proxies", "snip,synflow"))
    assert without_time(ranked(capsys, "my_ranked.py", "--proxies", "snip,synflow", "--workers", "2")) == one
    assert main(["score", "my_ranked:large", "--proxies", "snip,synflow", "--json"]) == 0
    scores = {s["proxy"]: s["value"] for s in json.loads(capsys.readouterr().out)["scores"]}
    (large,) = [network for network in one["networks"] if network["network"] == "large"]
    assert {name: score["value"] for name, score in large["scores"].items()} == scores


def test_the_device(capsys: Output, refused: Refused) -> None:
    names = "my_ranked.py", "--proxies", "snip"
    cpu = without_time(ranked(capsys, *names))
    if not torch.cuda.is_available():
        assert without_time(ranked(capsys, *names, "--device", "auto")) == cpu
        assert "device: expected cpu or auto, got cuda" in refused(["rank", *names, "--device", "cuda"])
        return
    gpu = ranked(capsys, *names, "--device", "cuda")
    values = [[each["scores"]["snip"]["value"] for each in found["networks"]] for found in (cpu, gpu)]
    assert values[1] == pytest.approx(values[0], rel=1e-2)
    assert values[1] != values[0]


def test_a_network_that_fails_ends_alone(capsys: Output) -> None:
    found = ranked(capsys, "my_bad.py", "--proxies", "snip", status=4)
    failures = {network["network"]: network["failure"] for network in found["networks"]}
    assert list(failures) == ["small", "large", "smooth", "broken", "dies", "number", "prints"]
    assert "ValueError (no [weights])" in failures["broken"]
    assert failures["dies"] == "crashed: its process ended with exit status 7"
    assert "expected number to return a torch.nn.Module, got int" in failures["number"]
    assert not failures["prints"]
    # `head` of this file wants an argument, so it is called by the networks with one too few.
    assert "head() missing 1 required positional argument" in failures["small"]


def test_a_dictionary_lists_networks(capsys: Output) -> None:
    first = without_time(ranked(capsys, "my_listed.py", "--proxies", "snip"))
    sys.modules.pop("my_listed")
    again = without_time(ranked(capsys, "my_listed.py", "--proxies", "snip"))
    assert [network["network"] for network in first["networks"]] == ["built", "function"]
    assert first == again  # what a file draws while it is imported goes by the seed
    by_name = without_time(ranked(capsys, "my_listed:networks", "--proxies", "snip"))
    assert by_name == first
    both = ranked(capsys, "my_ranked:small", "my_listed.py", "--proxies", "params")
    assert [network["network"] for network in both["networks"]] == ["small", "built", "function"]


def test_images_of_a_folder_and_of_any_size(capsys: Output, tmp_path: Path) -> None:
    for place in range(6):
        path = tmp_path / "photos" / "ab"[place % 2] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 20), (40 * place, 0, 0)).save(path)
    given = ["my_ranked:small", "--proxies", "snip", "--batch_size", "6"]
    found = ranked(capsys, *given, "--images", "photos", "--size", "24")
    assert found["shape"] == [6, 3, 24, 24]
    assert found["networks"][0]["scores"]["snip"]["status"] == "ok"
    assert ranked(capsys, *given, "--images", "photos")["shape"] == [6, 3, 224, 224]
    assert ranked(capsys, *given, "--size", "20")["shape"] == [6, 3, 20, 20]
    assert ranked(capsys, *given, "--dataset", "noise-imagenet16-120")["shape"] == [6, 3, 16, 16]


def test_labels_fit_networks_of_few_classes(capsys: Output) -> None:
    Path("my_listed.py").write_text(LISTED.replace("classes=10", "classes=2"))
    (network, _) = ranked(capsys, "my_listed.py", "--proxies", "snip")["networks"]
    assert "zcbench rank --classes" in network["scores"]["snip"]["status"]
    (network, _) = ranked(capsys, "my_listed.py", "--proxies", "snip", "--classes", "2")["networks"]
    assert network["scores"]["snip"]["status"] == "ok"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["."], "networks: expected a Python file such as my_nets.py, got ., which is a folder"),
        (["absent.py"], "networks: expected a Python file, got absent.py"),
        (["my_ranked:absent"], "cannot find my_ranked:absent"),
        (["my_ranked"], "networks: expected MODULE:FACTORY, got 'my_ranked'"),
        (["my_ranked.py", "my_ranked:small"], "expected distinct names, got small twice"),
        (["my_ranked.py", "--proxies", "snipp"], "did you mean snip"),
        (["my_ranked.py", "--seed", "-1"], "seed: expected 0 to"),
        (["my_ranked.py", "--size", "0"], "size: expected 1 or more"),
        (["my_ranked.py", "--classes", "-1"], "classes: expected 1 or more"),
        (["my_ranked.py", "--workers", "0"], "workers: expected 1 or more"),
        (["my_ranked.py", "--images", "nowhere"], "images: expected a folder"),
        (["my_ranked.py", "--images", ".", "--dataset", "cifar10"], "expected one source of images"),
        (["my_ranked.py", "--batch_size", "21"], "expected 1 to 20"),
        (["my_ranked.py", "--datamodule_args", "{a: 1}"], "add --datamodule"),
    ],
    ids=str,
)
def test_bad_arguments_are_one_line(arguments: list[str], word: str, refused: Refused) -> None:
    assert word in refused(["rank", *arguments])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("networks = {}", "to be a dictionary of networks by name, got an empty one"),
        ("networks = [1]", "to be a dictionary of networks by name, got list"),
        (
            "networks = {'a': 3}",
            "a of my_own_listed.py to be a torch.nn.Module or a function that returns one, got int",
        ),
        ("def wants(width): ...", "expected my_own_listed.py to define a dictionary `networks`, or functions"),
        ("raise OSError('no disk')", "networks: my_own_listed.py fails: OSError: no disk"),
    ],
    ids=["empty", "list", "number", "nothing", "fails"],
)
def test_a_file_without_networks_is_one_line(text: str, word: str, refused: Refused) -> None:
    Path("my_own_listed.py").write_text(text)
    try:
        assert word in refused(["rank", "my_own_listed.py"])
    finally:
        sys.modules.pop("my_own_listed", None)
