"""TransNAS-Bench-101 (Duan et al., CVPR 2021): cells and skeletons trained for seven tasks."""

from __future__ import annotations

from .space import TransNasMacro as TransNasMacro
from .space import TransNasMicro as TransNasMicro
