"""ImageNet16-120: the first 120 classes of ImageNet at 16 x 16 pixels, as NAS-Bench-201 was trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import DataFileError
from .cifar import Batches
from .images import DATASETS
from .tasks import TASKS, Task


class ImageNet16(Batches):
    """ImageNet16-120 from `ImageNet16/train_data_batch_1`: its images of the first 120 classes, in their order."""

    name: str = "imagenet16-120"
    task: Task = TASKS["imagenet16-120"]
    # As the benchmark's own code has them, in grey levels.
    mean = (122.68 / 255, 116.66 / 255, 104.01 / 255)
    std = (63.22 / 255, 61.26 / 255, 65.09 / 255)

    def read(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Read the batch, drop the other 880 classes and count labels from 0; the file counts from 1.

        Raises:
            DataFileError: Also where a label is no class of ImageNet, or no image is left.
        """
        pixels, labels = super().read()
        if len(labels) and not 1 <= labels.min() <= labels.max() <= 1000:
            raise DataFileError(f"{self.name}: expected labels 1 to 1000, got {labels.min()} to {labels.max()}")
        classes = self.task.num_classes
        kept = labels <= classes
        if not kept.any():
            raise DataFileError(f"{self.name}: none of {len(labels)} images is of the first {classes} classes")
        return pixels[kept], labels[kept] - 1


DATASETS.add(ImageNet16.name, ImageNet16)
