"""YAML of plain settings: what could make a small text large, slow or unclear is refused."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

#: Limits for the characters of a text and for how deep its lists and mappings are nested.
LONGEST, DEEPEST = 1_000_000, 50


class _Loader(yaml.SafeLoader):
    """A loader without aliases, with a limited depth, in which a key occurs once."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node."""
        if self.check_event(yaml.AliasEvent):
            raise self._fault("an alias (*name), which can make a short text long", self.peek_event())
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._fault(f"more than {DEEPEST} levels", self.peek_event())
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise self._fault(f"the key {twice[0]} twice", node)
        return super().construct_mapping(node, deep=deep)

    @staticmethod
    def _fault(what: str, at: Any) -> yaml.YAMLError:
        return yaml.YAMLError(f"line {at.start_mark.line + 1} has {what}")


def read_yaml(text: str) -> Any:
    """Read a YAML text.

    Raises:
        ValueError: The text is too long.
        yaml.YAMLError: The text is no YAML, is nested too deep, has an alias, or has a key twice.

    Example:
        >>> read_yaml("sample: 200")
        {'sample': 200}
    """
    if len(text) > LONGEST:
        raise ValueError(f"{len(text):,} characters, expected at most {LONGEST:,}")
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of SafeLoader
