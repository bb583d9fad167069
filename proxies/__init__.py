"""Proxies, one file each, and the passes that they read from a probe.

Importing the package registers every proxy in it. A new proxy needs only a file with a function under `@register`.
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
