"""Images as Lightning data modules, and the one batch that a probe sees."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from ..errors import ConfigError, DataFileError
from ..registry import Registry
from .files.registry import data_folder
from .tasks import Task

#: Probe batches come from the first 10,000 official training images.
POOL = 10_000


@dataclass(frozen=True)
class ProbeBatch:
    """The images that every network of a study sees.

    Attributes:
        x: `(N, C, H, W)` float32, normalised.
        y: `(N,)` int64; None where the task has no labels.
        hash: First 16 hexadecimal digits of the sha256 of both; it stands in every row of scores.
    """

    x: Tensor
    y: Tensor | None
    hash: str


class ImageDataModule(pl.LightningDataModule, ABC):
    """Labelled images of one size.

    Args:
        folder: The data folder; by default `ZCBENCH_DATA` or the user's data directory.
        batch_size: Of the data loader. Probe batches name their own.
    """

    name: str
    #: What networks that see the images are built for; benchmark spaces name their accuracies so.
    task: Task

    def __init__(self, folder: Path | None = None, batch_size: int = 64) -> None:
        super().__init__()
        self.folder = data_folder(folder)
        self.batch_size = batch_size

    def pool(self) -> int:
        """Return how many images a probe batch can have, at most 10,000."""
        return POOL

    @abstractmethod
    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor | None]:
        """Return `count` images `(N, C, H, W)` float32 and labels `(N,)` int64 if any, 1 to `pool()` of them.

        A smaller count gives the beginning of what a larger one gives.
        """

    def probe_batch(self, batch_size: int, seed: int) -> ProbeBatch:
        """Return *the* batch for a size and a seed; smaller batches are the beginning of larger ones.

        Raises:
            ConfigError: The size is not between 1 and the number of images at hand.
            DataFileError: A file is absent or faulty.
        """
        pool = self.pool()
        if not 1 <= batch_size <= pool:
            raise ConfigError(f"batch_sizes: expected 1 to {pool}, the images of {self.name} at hand, got {batch_size}")
        x, y = self.draw(batch_size, seed)
        digest = hashlib.sha256(x.numpy().tobytes() + (b"" if y is None else y.numpy().tobytes()))
        return ProbeBatch(x, y, digest.hexdigest()[:16])


class StoredImages(ImageDataModule):
    """Training images from files, normalised by their mean and standard deviation."""

    #: Per channel, of the training images scaled to 0..1.
    mean: ClassVar[tuple[float, float, float]]
    std: ClassVar[tuple[float, float, float]]

    def __init__(self, folder: Path | None = None, batch_size: int = 64) -> None:
        super().__init__(folder, batch_size)
        self._images: tuple[NDArray[np.uint8], NDArray[np.int64]] | None = None

    @abstractmethod
    def read(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return training images `(M, 3, H, W)` uint8 and labels `(M,)`, in the official order.

        Raises:
            DataFileError: A file is absent or faulty.
        """

    def setup(self, stage: str = "predict") -> None:
        """Read the images once and check them."""
        if self._images is None:
            pixels, labels = self.read()
            expected = (len(labels), *self.task.shape)
            if pixels.shape != expected or pixels.dtype != np.uint8:
                raise DataFileError(f"{self.name}: expected uint8 images {expected}, got {pixels.dtype} {pixels.shape}")
            classes = self.task.num_classes
            if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
                raise DataFileError(
                    f"{self.name}: expected labels 0 to {classes - 1}, got {labels.min()} to {labels.max()}"
                )
            self._images = pixels, labels

    def pool(self) -> int:
        """Return how many of the first 10,000 images are at hand."""
        self.setup()
        assert self._images is not None
        return min(len(self._images[1]), POOL)

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor]:
        """Draw distinct images from the pool, normalised."""
        # RandomState's stream is frozen for good; the newer generators may change with numpy.
        chosen = np.random.RandomState(seed).permutation(self.pool())[:count]
        assert self._images is not None
        pixels, labels = self._images
        return self.normalise(pixels[chosen]), torch.from_numpy(labels[chosen])

    def normalise(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Return (pixel / 255 - mean) / std as float32, computed in float64; `(N, 3, H, W)`."""
        mean, std = (np.asarray(values).reshape(3, 1, 1) for values in (self.mean, self.std))
        return torch.from_numpy(((pixels / 255.0 - mean) / std).astype(np.float32))

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """Return the training images in order, normalised, without augmentation."""
        self.setup()
        assert self._images is not None
        pixels, labels = self._images
        return DataLoader(TensorDataset(self.normalise(pixels), torch.from_numpy(labels)), batch_size=self.batch_size)


#: Data sets, each made from the data folder.
DATASETS: Registry[Callable[[Path | None], ImageDataModule]] = Registry("dataset")
