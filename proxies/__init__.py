"""What is measured: the passes of a probe, and one file per proxy.

Importing the package registers every proxy in it: a file with a function under `@register` is all that a new one needs.
"""

from __future__ import annotations

import importlib
import pkgutil

from .aggregate import AGGREGATES as AGGREGATES
from .aggregate import aggregate as aggregate
from .registry import PROXIES as PROXIES
from .registry import Proxy as Proxy
from .registry import register as register

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f".{_module.name}", __name__)
