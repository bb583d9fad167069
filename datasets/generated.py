"""Generated images: they show what a proxy scores without real data, and replace images that are not available."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .images import DATASETS, Images
from .tasks import TASKS, Task


class Noise(Images):
    """Gaussian noise of mean 0 and variance 1 in the shape of a task's images."""

    kind = "noise"

    def __init__(self, folder: Path | None = None, task: Task = TASKS["cifar10"]) -> None:
        super().__init__(folder)
        self.task = task
        self.name = f"{self.kind}-{task.name}"

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor | None]:
        """Return generated images; the label of an image is its position modulo the number of classes."""
        x = self.fill((count, *self.task.shape), seed)
        return x, torch.arange(count) % self.task.num_classes if self.task.outputs == "logits" else None

    def fill(self, shape: tuple[int, ...], seed: int) -> Tensor:
        """Return independent normal values in the given shape, float32."""
        # The stream of RandomState never changes. It fills image by image, so a small batch begins a larger one.
        return torch.from_numpy(np.random.RandomState(seed).standard_normal(shape).astype(np.float32))


class Ones(Noise):
    """Images of a task's shape in which every value is 1, for every seed."""

    kind = "ones"

    def fill(self, shape: tuple[int, ...], seed: int) -> Tensor:
        """Return ones in the given shape."""
        return torch.ones(shape)


for _kind in (Noise, Ones):
    for _task in TASKS.values():
        DATASETS.add(f"{_kind.kind}-{_task.name}", partial(_kind, task=_task))
