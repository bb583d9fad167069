"""Images that no file holds: what a proxy says when the data say nothing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from .images import DATASETS, ImageDataModule


class Noise(ImageDataModule):
    """Gaussian noise of mean 0 and variance 1 in place of CIFAR-10 images; ten labels in turn."""

    name: str = "noise"
    # Rankings by noise are compared with accuracies on real images of the same form.
    task: ClassVar[str] = "cifar10"
    num_classes: ClassVar[int] = 10
    image_size: ClassVar[int] = 32

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor]:
        """Draw normalised images, all values independent; the label is the position modulo the classes."""
        x = self.fill((count, 3, self.image_size, self.image_size), seed)
        return x, torch.arange(count) % self.num_classes

    def fill(self, shape: tuple[int, ...], seed: int) -> Tensor:
        """Return a tensor of a shape, float32."""
        # RandomState's stream is frozen for good; it fills image by image, so small batches begin large ones.
        return torch.from_numpy(np.random.RandomState(seed).standard_normal(shape).astype(np.float32))


class Ones(Noise):
    """Every value 1 in place of CIFAR-10 images, whatever the seed; ten labels in turn."""

    name: str = "ones"

    def fill(self, shape: tuple[int, ...], seed: int) -> Tensor:
        """Return ones."""
        return torch.ones(shape)


DATASETS.add(Noise.name, Noise)
DATASETS.add(Ones.name, Ones)
