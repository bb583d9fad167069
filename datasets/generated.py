"""Images that no file holds: what a proxy says when the data say nothing, or when the images cannot be had."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .images import DATASETS, ImageDataModule
from .tasks import TASKS, Task


class Noise(ImageDataModule):
    """Gaussian noise of mean 0 and variance 1 in the form of a task's images; its labels in turn."""

    kind = "noise"

    def __init__(self, folder: Path | None = None, batch_size: int = 64, task: Task = TASKS["cifar10"]) -> None:
        super().__init__(folder, batch_size)
        self.task = task
        self.name = f"{self.kind}-{task.name}"

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor | None]:
        """Draw normalised images, all values independent; the label is the position modulo the classes."""
        x = self.fill((count, *self.task.shape), seed)
        return x, torch.arange(count) % self.task.num_classes if self.task.outputs == "logits" else None

    def fill(self, shape: tuple[int, ...], seed: int) -> Tensor:
        """Return a tensor of a shape, float32."""
        # RandomState's stream is frozen for good; it fills image by image, so small batches begin large ones.
        return torch.from_numpy(np.random.RandomState(seed).standard_normal(shape).astype(np.float32))


class Ones(Noise):
    """Every value 1 in the form of a task's images, whatever the seed; its labels in turn."""

    kind = "ones"

    def fill(self, shape: tuple[int, ...], seed: int) -> Tensor:
        """Return ones."""
        return torch.ones(shape)


for _kind in (Noise, Ones):
    for _task in TASKS.values():
        DATASETS.add(f"{_kind.kind}-{_task.name}", partial(_kind, task=_task))
