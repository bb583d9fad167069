"""The residual search space of Zen-NAS, whose networks are chains of super blocks of free width and depth."""

from __future__ import annotations

from .space import Zen as Zen
