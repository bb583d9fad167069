"""A reader of JSON records one at a time, because a sweep is too large to be read at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

#: Characters of a file that are read at once, and limit for those of a record. A record has about 100,000 characters.
_PIECE = 1 << 20
_LONGEST = 1 << 26


def records(stream: TextIO) -> Iterator[tuple[str, Any]]:
    """Yield the records of a list, or of an object of lists, one at a time, each with the name of its list.

    The name is empty if the file is a single list.

    Raises:
        ValueError: The text is torn, or is no such JSON.
        RecursionError: The text is nested too deeply.
    """
    text = _Json(stream)
    if text.take("[{") == "[":
        for record in text.items():
            yield "", record
    else:
        names = set()
        while True:
            name = text.value()
            if not isinstance(name, str) or name in names:
                raise ValueError(f"expected the name of another list, got {str(name)[:40]}")
            names.add(name)
            text.take(":")
            text.take("[")
            for record in text.items():
                yield name, record
            if text.take(",}") == "}":
                break
    text.take("")


class _Json:
    """A JSON text of which one piece at a time is in memory."""

    decoder = json.JSONDecoder()
    inked = re.compile(r"[^ \t\n\r]")

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.text = ""
        self.at = 0

    def take(self, expected: str) -> str:
        """Read one of the expected characters and return it. If none is expected, the text must end here."""
        found = self._peek()
        if found not in list(expected or [""]):
            raise ValueError(f"expected {' or '.join(expected) or 'its end'}, got {found or 'its end'}")
        self.at += 1
        return found

    def items(self) -> Iterator[Any]:
        """Yield the values of a list whose opening bracket has been read, up to its closing bracket."""
        if self._peek() == "]":
            self.at += 1
            return
        while True:
            yield self.value()
            if self.take(",]") == "]":
                return

    def value(self) -> Any:
        """Read one value and return it."""
        self._peek()
        while True:
            try:
                value, self.at = self.decoder.raw_decode(self.text, self.at)
            except ValueError:
                rest = self.text[self.at :]
                # The text doubles each time, because equal pieces would make the time quadratic.
                more = self.stream.read(max(_PIECE, len(rest)))
                if not more or len(rest) > _LONGEST:
                    raise
                self.text, self.at = rest + more, 0
            else:
                return value

    def _peek(self) -> str:
        """Return the next character that is no white space; an empty text at the end."""
        while (found := self.inked.search(self.text, self.at)) is None:
            self.text, self.at = self.stream.read(_PIECE), 0
            if not self.text:
                return ""
        self.at = found.start()
        return found[0]
