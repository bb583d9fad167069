"""YAML of plain settings: what could make a small text large, slow or unclear is refused."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

#: Limits for the characters of a text, for how deep its lists and mappings are nested, and for the number of values
#: when aliases are written out.
LONGEST, DEEPEST, MOST = 1_000_000, 50, 100_000


class _Loader(yaml.SafeLoader):
    """A loader of limited depth and number of values, in which a key occurs once."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth = 0
        self.values: dict[yaml.Node, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node, and count its values."""
        at = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = isinstance(at, yaml.AliasEvent)
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._fault(f"more than {DEEPEST} levels", at)
        node = super().compose_node(parent, index)
        self.depth -= 1
        assert node is not None
        if is_alias and node not in self.values:
            raise self._fault("an alias of what it lies in", at)
        if node not in self.values:
            parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
            inner = [] if isinstance(node, yaml.ScalarNode) else parts
            self.values[node] = 1 + sum(self.values[part] for part in inner)
        if self.values[node] > MOST:
            raise self._fault(f"more than {MOST:,} values when aliases (*name) are written out", at)
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
        yaml.YAMLError: The text is no YAML, is nested too deep, stands for too many values, or has a key twice.

    Example:
        >>> read_yaml("sample: 200")
        {'sample': 200}
    """
    if len(text) > LONGEST:
        raise ValueError(f"{len(text):,} characters, expected at most {LONGEST:,}")
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of SafeLoader
