"""TransNAS-Bench-101 (Duan et al., CVPR 2021): cells and skeletons that were trained for seven tasks."""

from __future__ import annotations

from . import space as space
