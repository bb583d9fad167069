"""The engine: jobs in, results out. Studies, and the statistics and evaluation of the evolution run on it."""

from __future__ import annotations

from .cluster import ClusterWorkers as ClusterWorkers
from .device import on_gpu as on_gpu
from .device import own_device as own_device
from .local import Ended as Ended
from .local import Limits as Limits
from .local import Workers as Workers
from .local import is_out_of_memory as is_out_of_memory
from .local import place as place
