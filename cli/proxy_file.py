"""The proxies of a file of one's own, for the commands that take such a file."""

from __future__ import annotations

from ..errors import ConfigError
from ..plugins import load


def registered(file: str) -> list[str]:
    """Register the proxies of a file and return their names.

    Raises:
        ConfigError: There is no such file, it fails, or it registers no proxy under a new name.
    """
    from ..proxies import PROXIES

    known = set(PROXIES)
    load([file], "file")
    if not (names := [name for name in PROXIES if name not in known]):
        raise ConfigError(f"file: expected a file that registers a proxy under a new name, got {file}, no @register")
    return names
