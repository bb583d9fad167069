"""A space of networks that do to their process what networks may do, beside plain ones.

With HARD=no in the environment all of them are plain.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from zcbench.datasets import Task
from zcbench.spaces import SPACES, Space, Truth

HELD: list[Tensor] = []


def leak() -> None:
    HELD.extend(torch.ones(1 << 26) for _ in range(32))  # 8 GiB


def fail() -> None:
    raise ValueError("planted")


def change() -> None:
    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    os.chdir("/")


def fork() -> None:
    if not HELD:
        HELD.append(torch.ones(1))
        os.fork()  # both processes go on, and both have the pipe to the one that waits


#: What the forward pass of a network does; `build` fails before it has one.
DOES = {
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(0),
    "sys-exit": lambda: sys.exit(0),
    "sleep": lambda: time.sleep(600),
    "leak": leak,
    "fail": fail,
    "change": change,
    "fork": fork,
    "build": fail,
}
NAMES = [*DOES, *(f"plain-{width}" for width in range(1, 12))]
HARD = os.environ.get("HARD", "yes") == "yes"


class Does(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        if HARD and x.device.type != "meta":
            DOES.get(self.name, lambda: None)()
        return x


class HardSpace(Space):
    name = "hard"
    paper = "none"
    size = len(NAMES)
    truths: Mapping[str, Mapping[str, str]] = {"cifar10": {"made": "invented"}}

    def architecture(self, index: int) -> str:
        return NAMES[self.check_index(index)]

    def index(self, architecture: str) -> int:
        return NAMES.index(architecture)

    def network(self, architecture: str, task: Task) -> nn.Module:
        if HARD and architecture == "build":
            fail()
        width = 2 + self.index(architecture)
        layers = [nn.Conv2d(task.channels, width, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes)]
        return nn.Sequential(Does(architecture), *layers, *end)

    def read_truth(self, task: str, which: str) -> Truth:
        return Truth(f"{task}/{which}", self.truths[task][which], np.arange(self.size, dtype=np.float64))


SPACES.add(HardSpace.name, HardSpace)
