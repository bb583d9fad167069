"""Parsing: the text of a program becomes a tree of `programs.Program`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from ...errors import ProgramError
from .primitives import Kind
from .programs import Program, Vocabulary, quoted

#: Maximum number of characters of a text. The largest program of height 10 has 2047 nodes.
LONGEST_TEXT = 100_000

_TOKEN = re.compile(r"[^\s(),]+|[(),]")


def parse(vocabulary: Vocabulary, text: str) -> Program:
    """Return the program that a text describes.

    Raises:
        ProgramError: The text has a syntax error or an unknown name, an operation has the wrong number or kind of
            arguments, or the program is higher than the limit.
    """
    if len(text) > LONGEST_TEXT:
        raise ProgramError(f"program of {len(text)} characters: expected at most {LONGEST_TEXT}: {quoted(text)}")
    if not text.isascii():
        odd = next(c for c in text if not c.isascii())
        raise ProgramError(f"program {quoted(text)}: expected ASCII, got {odd!a} at {text.index(odd)}")
    return _Parser(vocabulary, text).program()


class _Parser:
    """A parser that reads from left to right and keeps operations with missing arguments on a stack."""

    def __init__(self, vocabulary: Vocabulary, text: str) -> None:
        self.vocabulary, self.text = vocabulary, text
        self.tokens = [(match.group(), match.start()) for match in _TOKEN.finditer(text)]
        self.place = 0

    def program(self) -> Program:
        if not self.tokens:
            raise ProgramError("program: expected a text such as abs(T3), got none")
        kinds: dict[Program, Kind] = {}
        open_: list[tuple[str, list[Program]]] = []
        while True:
            name = self._take("a name", lambda token: token not in "(),")
            if self._next() == "(":
                self.place += 1
                if name not in self.vocabulary.primitives and name not in self.vocabulary.terminals:
                    raise self.vocabulary.unknown(name)
                open_.append((name, []))
                if len(open_) > self.vocabulary.height_limit:
                    limit = self.vocabulary.height_limit
                    raise ProgramError(f"program {quoted(self.text)}: higher than the limit of {limit}")
                continue
            node = self._node(name, (), kinds)
            while open_:
                name, args = open_[-1]
                args.append(node)
                if self._take("',' or ')'", lambda token: token in {",", ")"}) == ",":
                    break
                open_.pop()
                node = self._node(name, tuple(args), kinds)
            else:
                if self.place < len(self.tokens):
                    self._fail("the end")
                return node

    def _node(self, name: str, args: tuple[Program, ...], kinds: dict[Program, Kind]) -> Program:
        node = Program(name, args)
        kinds[node] = self.vocabulary.node_kind(node, *(kinds[argument] for argument in args))
        return node

    def _next(self) -> str:
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    def _take(self, expected: str, fits: Callable[[str], bool]) -> str:
        token = self._next()
        if not token or not fits(token):
            self._fail(expected)
        self.place += 1
        return token

    def _fail(self, expected: str) -> NoReturn:
        token, start = self.tokens[self.place] if self.place < len(self.tokens) else ("", len(self.text))
        got = quoted(token) if token else "the end"
        raise ProgramError(f"program {quoted(self.text)}: expected {expected} at character {start}, got {got}")
