"""The option `--datamodule` of `zcbench run` and `zcbench score`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from zcbench.__main__ import main
from zcbench.datasets import TASKS
from zcbench.proxies import PROXIES
from zcbench.proxies.registry import score_all
from zcbench.spaces import SPACES

Refused = Callable[[list[str]], str]
Rows = Callable[[Path], pd.DataFrame]

MODULE = """
import torch
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader, TensorDataset

class Blocks(LightningDataModule):
    def __init__(self, classes=10, side=32, scale=1.0):
        super().__init__()
        self.classes, self.side, self.scale = classes, side, scale

    def train_dataloader(self):
        images = torch.randn(12, 3, self.side, self.side) * self.scale
        return DataLoader(TensorDataset(images, torch.arange(12) % self.classes), batch_size=5, shuffle=True)

def net():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 4 * 4, 3))
"""
RUN = ["run", "--space", "nb201", "--dataset", "cifar10", "--accuracy", "analog-baseline", "--sample", "3"]
RUN += ["--proxies", "[params, snip]", "--batch_sizes", "[2]", "--tracker", "none", "--datamodule", "my_blocks:Blocks"]


@pytest.fixture(autouse=True)
def _own(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "my_blocks.py").write_text(MODULE)
    sys.modules.pop("my_blocks", None)
    yield
    sys.modules.pop("my_blocks", None)


def test_a_study_on_the_images_of_a_data_module(capsys: pytest.CaptureFixture[str], every_row: Rows) -> None:
    assert main([*RUN, "--format", "json"]) == 0
    output = capsys.readouterr()
    records = json.loads(output.out)
    assert {r["accuracy"] for r in records} == {"cifar10/analog-baseline"}
    rows = every_row(Path("results"))
    (name,) = set(rows["dataset"])
    assert name.startswith("my_blocks:Blocks ")
    assert f"3 networks of nb201 on {name}, accuracy cifar10/analog-baseline" in output.err
    # The images by hand: the seed is set before the loader is made, and again before it is read.
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(12, 3, 32, 32), torch.arange(12) % 10), batch_size=5, shuffle=True)
    torch.manual_seed(0)
    x, y = next(iter(loader))
    space = SPACES["nb201"](None)
    for row in rows[rows["proxy"] == "snip"].itertuples():
        net = space.build(row.architecture, TASKS["cifar10"], 0)
        x = x.contiguous(memory_format=space.memory_format)
        (expected,) = score_all(net, x[:2], y[:2], [PROXIES["snip"]], seed=0)
        assert row.value == expected.value
    # Another run computes nothing anew; edited code does.
    assert main(RUN) == 0
    assert len(every_row(Path("results"))) == 6
    Path("my_blocks.py").write_text(MODULE + "# edited\n")
    sys.modules.pop("my_blocks")
    assert main(RUN) == 0
    assert len(every_row(Path("results"))) == 12


def test_arguments_stand_in_a_configuration_or_on_the_command_line(every_row: Rows) -> None:
    Path("mine.yaml").write_text(
        "version: 1\ndataset: cifar10\naccuracy: analog-baseline\nproxies: [params]\nsample: 3\nbatch_sizes: [2]\n"
        "tracker: none\ndatamodule: my_blocks:Blocks\ndatamodule_args: {classes: 5, scale: 2.0}\n"
    )
    assert main(["run", "--config", "mine.yaml"]) == 0
    for form in (
        ['--datamodule_args={"classes": 5, "scale": 2.0}'],
        ["--datamodule_args.classes", "5", "--datamodule_args.scale", "2.0"],
    ):
        assert main([*RUN, "--proxies", "[params]", *form]) == 0
    assert len(every_row(Path("results"))) == 3  # all three are the same study


def test_a_leaderboard_and_a_baseline_of_a_data_module() -> None:
    assert main(RUN) == 0
    assert main(["leaderboard", "--results", "results", "--out", "board"]) == 0
    assert "my_blocks:Blocks" in Path("board/leaderboard.md").read_text("utf-8")
    Path("mine.yaml").write_text(
        "version: 1\ndataset: cifar10\naccuracy: analog-baseline\nproxies: [params]\nsample: 3\nbatch_sizes: [2]\n"
        "datamodule: my_blocks:Blocks\n"
    )
    assert main(["check", "--baseline", "base.json", "--update", "--config", "mine.yaml"]) == 0
    assert main(["check", "--baseline", "base.json"]) == 0


def test_score_takes_a_data_module(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "score",
        "--arch",
        "6111",
        "--datamodule",
        "my_blocks:Blocks",
        "--batch_size",
        "4",
        "--proxies",
        "snip",
    ]
    hashes = []
    for seed in ("0", "0", "1"):
        assert main([*arguments, "--seed", seed, "--json"]) == 0
        hashes.append(json.loads(capsys.readouterr().out)["batch_hash"])
    assert hashes[0] == hashes[1] != hashes[2]
    # A network of one's own may have images and classes that no task has.
    sides = ["--datamodule_args.side", "4", "--datamodule_args.classes", "3"]
    assert main(["score", "my_blocks:net", *arguments[3:], *sides]) == 0
    assert "my_blocks:Blocks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--datamodule", "my_blocks"], "expected MODULE:CLASS"),
        (["--datamodule", "my_blocks:Absent"], "cannot find my_blocks:Absent"),
        (["--datamodule", "my_blocks:net"], "to be a subclass of LightningDataModule, got function"),
        (["--datamodule_args", '{"roots": 1}'], "__init__ raises TypeError"),
        (["--datamodule_args", '{"side": 8}'], "expected images (3, 32, 32), those of the task cifar10, got (3, 8, 8)"),
        (["--datamodule_args", '{"scale": .nan}'], "datamodule_args: expected texts, numbers"),
        (["--datamodule_args", '{"scale": 1e40}'], "expected finite pixels"),
        (["--datamodule_args", "5"], "datamodule_args"),
        (["--datamodule_args", "null"], "datamodule_args"),
        (["--datamodule", "", "--datamodule_args", '{"side": 8}'], "add --datamodule"),
        (["--batch_sizes", "[13]"], "expected at most 12, the number of images in the training loader"),
        (["--batch_sizes", "[0]"], "batch_sizes: expected 1 to"),
        (["--datamodule_args", '{"classes": 12}', "--batch_sizes", "[12]"], "expected labels 0 to 9"),
    ],
    ids=str,
)
def test_bad_data_modules_are_one_line(arguments: list[str], words: str, refused: Refused) -> None:
    assert words in refused([*RUN, *arguments])


def test_a_run_on_a_data_module_is_tracked() -> None:
    command = [sys.executable, "-m", "zcbench", *RUN, "--proxies", "params", "--tracker", "wandb"]
    # W&B would refuse the colon in the name of an artifact.
    assert "W&B offline" in subprocess.run(command, capture_output=True, text=True, check=True).stderr
