"""The base classes of all data sets: sources of images that give the probe batch of a study."""

from __future__ import annotations

import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import ConfigError, DataFileError
from ..registry import Registry
from .files.registry import data_folder
from .tasks import Task

#: Number of images that probe batches are drawn from: the first official training images.
POOL = 10_000


@dataclass(frozen=True)
class ProbeBatch:
    """The images that every network of a study sees.

    Attributes:
        x: Normalised images `(N, C, H, W)`, float32.
        y: Labels `(N,)`, int64; None if the task has no labels.
        hash: First 16 hexadecimal digits of the sha256 of images and labels; every row of scores has it.
    """

    x: Tensor
    y: Tensor | None
    hash: str

    @classmethod
    def of(cls, x: Tensor, y: Tensor | None) -> ProbeBatch:
        """Return the probe batch of some images on the CPU and their labels."""
        digest = hashlib.sha256(x.numpy().tobytes() + (b"" if y is None else y.numpy().tobytes()))
        return cls(x, y, digest.hexdigest()[:16])


class Images(ABC):
    """Images of one size, with labels if their task has any.

    Args:
        folder: Data folder; by default `ZCBENCH_DATA` or the user's data directory.
    """

    name: str
    #: The task that networks are built for; spaces name their accuracies after it.
    task: Task

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_folder(folder)

    def pool(self) -> int:
        """Return the number of images that a probe batch is drawn from, at most 10,000."""
        return POOL

    @abstractmethod
    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor | None]:
        """Return images `(count, C, H, W)`, float32, and their labels `(count,)`, int64, if there are any.

        The count is 1 to `pool()`. With the same seed, a smaller count returns the first images of a larger one.
        """

    def probe_batch(self, batch_size: int, seed: int) -> ProbeBatch:
        """Return the probe batch of a size and a seed; a smaller batch is the beginning of a larger one.

        Raises:
            ConfigError: The size is not between 1 and the number of available images.
            DataFileError: A file is absent or faulty.
        """
        pool = self.pool()
        if not 1 <= batch_size <= pool:
            raise ConfigError(
                f"batch_sizes: expected 1 to {pool}, the number of images of {self.name}, got {batch_size}"
            )
        return ProbeBatch.of(*self.draw(batch_size, seed))


class StoredImages(Images):
    """Training images from files, normalised by their mean and standard deviation."""

    #: Mean and standard deviation of each channel, over the training images scaled to 0..1.
    mean: ClassVar[tuple[float, float, float]]
    std: ClassVar[tuple[float, float, float]]

    @abstractmethod
    def read(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return training images `(M, 3, H, W)` uint8 and labels `(M,)`, in the official order.

        Raises:
            DataFileError: A file is absent or faulty.
        """

    @functools.cached_property
    def _images(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        pixels, labels = self.read()
        expected = (len(labels), *self.task.shape)
        if pixels.shape != expected or pixels.dtype != np.uint8:
            raise DataFileError(f"{self.name}: expected uint8 images {expected}, got {pixels.dtype} {pixels.shape}")
        last = self.task.num_classes - 1
        if len(labels) and not 0 <= labels.min() <= labels.max() <= last:
            raise DataFileError(f"{self.name}: expected labels 0 to {last}, got {labels.min()} to {labels.max()}")
        return pixels, labels

    def setup(self) -> None:
        """Read the images once and check them."""
        _ = self._images

    def pool(self) -> int:
        """Return the number of images in the file, at most 10,000."""
        return min(len(self._images[1]), POOL)

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor]:
        """Return distinct images of the pool, normalised, and their labels."""
        # The stream of RandomState never changes. Newer generators may change with a version of numpy.
        chosen = np.random.RandomState(seed).permutation(self.pool())[:count]
        pixels, labels = self._images
        return self.normalise(pixels[chosen]), torch.from_numpy(labels[chosen])

    def normalise(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Return (pixel / 255 - mean) / std, `(N, 3, H, W)`, computed in float64 and rounded to float32."""
        mean, std = (np.asarray(values).reshape(3, 1, 1) for values in (self.mean, self.std))
        return torch.from_numpy(((pixels / 255.0 - mean) / std).astype(np.float32))

    def training(self) -> tuple[Tensor, Tensor]:
        """Return all training images in their order, normalised, and their labels."""
        pixels, labels = self._images
        return self.normalise(pixels), torch.from_numpy(labels)


#: All data sets by name: functions that make the source of images from the data folder.
DATASETS: Registry[Callable[[Path | None], Images]] = Registry("dataset")
