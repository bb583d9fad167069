"""The engine: jobs in, results out. Nothing else in the house starts a process."""

from __future__ import annotations

from .local import Ended as Ended
from .local import Limits as Limits
from .local import Workers as Workers
