"""The test classes that a package subclasses to test what it adds: `ProxyContract` and `SpaceContract`; they need pytest."""

from __future__ import annotations

from .proxies.contract import ProxyContract as ProxyContract
from .spaces.contract import SpaceContract as SpaceContract
