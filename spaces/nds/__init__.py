"""The sweeps of NDS (Radosavovic et al., ICCV 2019): stacked cells of five searches, and AnyNet with its relatives."""

from __future__ import annotations

from . import anynet as anynet
