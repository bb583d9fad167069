"""CIFAR-10 and CIFAR-100 in their official python version: pickled batches of pixels and labels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import DataFileError
from .files.registry import find
from .files.unpickle import NUMPY, unpickle
from .images import DATASETS, StoredImages
from .tasks import TASKS, Task


class Batches(StoredImages):
    """Images from a pickled batch. The source of the file has the name of the data set."""

    #: The key of the labels in the batch; the key of the pixels is `data`.
    labels_key: ClassVar[str] = "labels"

    def read(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Read the batch; nothing from the file is run.

        Its `data` is `(M, 3 * H * W)` uint8, channel by channel, its labels are a list.
        """
        path, key, size = find(self.name, self.folder), self.labels_key, self.task.image_size
        batch = unpickle(path, NUMPY)
        if not isinstance(batch, dict) or not {"data", key} <= batch.keys():
            found = ", ".join(map(str, batch)) if isinstance(batch, dict) else type(batch).__name__
            raise DataFileError(f"data file {path}: expected a dictionary with data and {key}, got {found[:80]}")
        pixels, labels = batch["data"], batch[key]
        width = 3 * size**2
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (width,):
            form = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
            raise DataFileError(f"data file {path}: expected data of uint8 (M, {width}), got {form}")
        if not isinstance(labels, list) or len(labels) != len(pixels):
            form = f"{len(labels)}" if isinstance(labels, list) else type(labels).__name__
            raise DataFileError(f"data file {path}: expected a list of {len(pixels)} {key}, got {form}")
        if not all(type(label) is int and abs(label) < 2**31 for label in labels):
            raise DataFileError(f"data file {path}: expected whole numbers as {key}")
        pixels = pixels.view(np.ndarray)
        return pixels.reshape(-1, 3, size, size), np.asarray(labels, dtype=np.int64)


class Cifar10(Batches):
    """The first 10,000 training images of CIFAR-10, from `cifar-10-batches-py/data_batch_1`."""

    name: str = "cifar10"
    task: Task = TASKS["cifar10"]
    # Statistics of the 50,000 training images, rounded as in the NAS literature.
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2616)


class Cifar100(Batches):
    """CIFAR-100 with its 100 fine labels, from `cifar-100-python/train`."""

    name: str = "cifar100"
    task: Task = TASKS["cifar100"]
    labels_key: ClassVar[str] = "fine_labels"
    mean = (0.5071, 0.4865, 0.4409)
    std = (0.2673, 0.2564, 0.2762)


DATASETS.add(Cifar10.name, Cifar10)
DATASETS.add(Cifar100.name, Cifar100)
