"""Sources of images, and the data files: which there are, how they arrive, how they are read safely.

`ImageDataModule("cifar10")` is a data set as a `LightningDataModule`; the first use of this name imports Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import cifar as cifar
from . import generated as generated
from . import imagenet16 as imagenet16
from . import samples as samples
from .files.registry import data_folder as data_folder
from .images import DATASETS as DATASETS
from .images import Images as Images
from .images import ProbeBatch as ProbeBatch
from .images import StoredImages as StoredImages
from .tasks import TASKS as TASKS
from .tasks import Task as Task

if TYPE_CHECKING:
    from .lightning import ImageDataModule as ImageDataModule


def __getattr__(name: str) -> Any:
    if name == "ImageDataModule":
        from .lightning import ImageDataModule

        return ImageDataModule
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
