"""The networks of NDS (Radosavovic et al., ICCV 2019): cells of five searches, and AnyNet with its relatives."""

from __future__ import annotations

from .anynet import NdsAnyNet as NdsAnyNet
from .space import NdsCells as NdsCells
