"""Test classes that a package subclasses to test what it adds: `ProxyContract`, `SpaceContract`. They need pytest."""

from __future__ import annotations

from .proxies.contract import ProxyContract
from .spaces.contract import SpaceContract

__all__ = ["ProxyContract", "SpaceContract"]
