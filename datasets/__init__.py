"""Images as Lightning data modules, and the data files: which there are, how they arrive, how they are read safely."""

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
