"""Benchmark spaces, one file or folder for each. The import of this package registers them all."""

from __future__ import annotations

import importlib
import pkgutil

from .space import SPACES as SPACES
from .space import ListedSpace as ListedSpace
from .space import Space as Space
from .space import Truth as Truth

for _module in pkgutil.iter_modules(__path__):
    if _module.name != "contract":  # its tests need pytest, which users may not have
        importlib.import_module(f".{_module.name}", __name__)
