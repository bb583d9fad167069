"""Searches that train nothing: by scores alone, under limits of what a network may cost. The import registers them."""

from __future__ import annotations

from . import nsga2 as nsga2
from . import zen as zen
