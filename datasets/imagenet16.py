"""ImageNet16-120: the first 120 classes of ImageNet at 16 x 16 pixels, on which NAS-Bench-201 was trained."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import DataFileError
from .cifar import Batches
from .images import DATASETS
from .tasks import TASKS, Task


class ImageNet16(Batches):
    """The images of the first 120 classes in `ImageNet16/train_data_batch_1`, in the order of the file."""

    name: str = "imagenet16-120"
    task: Task = TASKS["imagenet16-120"]
    # The benchmark's code has these values in grey levels of 0 to 255.
    mean = (122.68 / 255, 116.66 / 255, 104.01 / 255)
    std = (63.22 / 255, 61.26 / 255, 65.09 / 255)

    def read(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Read the batch, drop the other 880 classes and subtract 1 from the labels, which begin at 1 in the file.

        Raises:
            DataFileError: The file is faulty, a label is no class of ImageNet, or no image is left.
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
