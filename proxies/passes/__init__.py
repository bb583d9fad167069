"""The passes through a network that a proxy can ask for, with their initialisations and inputs."""

from __future__ import annotations

from .needs import DATA as DATA
from .needs import JACOBIAN as JACOBIAN
from .needs import LOSS as LOSS
from .needs import Backward as Backward
from .needs import Forward as Forward
from .needs import Gradient as Gradient
from .needs import PerImage as PerImage
from .needs import Tap as Tap
