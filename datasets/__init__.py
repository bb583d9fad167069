"""Where bytes come from: Lightning data modules, the registry of files and readers that run nothing from a file."""

from __future__ import annotations

from . import cifar as cifar
from . import generated as generated
from . import imagenet16 as imagenet16
from . import samples as samples
from .files.registry import data_folder as data_folder
from .images import DATASETS as DATASETS
from .images import ImageDataModule as ImageDataModule
from .images import ProbeBatch as ProbeBatch
from .images import StoredImages as StoredImages
from .tasks import TASKS as TASKS
from .tasks import Task as Task
