"""The engine: jobs in, results out. The statistics and the evaluation of the evolution run on it."""

from __future__ import annotations

from .local import Ended as Ended
from .local import Limits as Limits
from .local import Workers as Workers
