"""The class of all registries: proxies, spaces, data sets, tasks, sources of data files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from .errors import unknown_name

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to items. A name is never overwritten; an unknown name gives an error with suggestions.

    Example:
        >>> colours = Registry("colour")
        >>> colours.add("red", 0xFF0000)
        >>> colours["red"]
        16711680
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def add(self, name: str, item: T) -> None:
        """Register `item` under `name`.

        Raises:
            ValueError: The name is already registered.
        """
        if name in self._items:
            raise ValueError(f"{self.kind} '{name}' is registered twice: {self._items[name]!r} and {item!r}")
        self._items[name] = item

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name]
        except KeyError:
            raise unknown_name(self.kind, name, self._items) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
