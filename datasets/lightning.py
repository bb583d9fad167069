"""A data set as a Lightning data module, for a Trainer. This file alone imports Lightning."""

from __future__ import annotations

from pathlib import Path

import pytorch_lightning as pl
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from ..errors import ConfigError
from .images import DATASETS, StoredImages


class ImageDataModule(pl.LightningDataModule):
    """The training images of a data set in their order, normalised, without augmentation.

    Args:
        name: Name of a data set that is read from files, for example `cifar10`.
        folder: Data folder; by default `ZCBENCH_DATA` or the user's data directory.
        batch_size: Number of images in a batch of the data loader.

    Raises:
        UnknownNameError: There is no data set of that name.
        ConfigError: The images of the data set are generated, so there are no training images.
    """

    def __init__(self, name: str, folder: str | Path | None = None, batch_size: int = 64) -> None:
        super().__init__()
        images = DATASETS[name](None if folder is None else Path(folder))
        if not isinstance(images, StoredImages):
            raise ConfigError(
                f"data module: expected a data set that is read from files, got {name}, which is generated"
            )
        self.images = images
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:
        """Read the images once and check them.

        Raises:
            DataFileError: A file is absent or faulty.
        """
        self.images.setup()

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """Return the loader of the training images."""
        return DataLoader(TensorDataset(*self.images.training()), batch_size=self.batch_size)
