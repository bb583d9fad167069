"""NAS-Bench-201 (Dong and Yang, ICLR 2020): its networks, its space, and the files that hold its accuracies."""

from __future__ import annotations

from . import space as space
