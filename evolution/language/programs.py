"""Programs: expression trees, their text, the kind of their value, and their canonical form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import get_args

from ...errors import ProgramError, one_line, unknown_name
from .primitives import PRIMITIVES, Kind, Primitive

#: What a name of a terminal or an operation matches.
WORD = re.compile(r"[^\s(),]+")


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A terminal, or an operation with its arguments. `str` gives its text, such as `frobenius(sigmoid(T1G_D))`.

    Attributes:
        name: Name of the terminal or of the operation.
        args: Arguments of the operation; empty for a terminal.
        size: Number of nodes.
        height: Number of edges from the root to the deepest leaf; 0 for a terminal. DEAP counts in the same way.
    """

    name: str
    args: tuple[Program, ...] = ()
    size: int = field(init=False, repr=False)
    height: int = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(argument.size for argument in self.args))
        object.__setattr__(self, "height", max((1 + argument.height for argument in self.args), default=0))
        object.__setattr__(self, "_hash", hash((self.name, self.args)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        pairs, seen = [(self, other)], set()
        while pairs:
            a, b = pairs.pop()
            if a is b or (id(a), id(b)) in seen:
                continue
            if a._hash != b._hash or a.name != b.name or len(a.args) != len(b.args):
                return False
            seen.add((id(a), id(b)))
            pairs += zip(a.args, b.args, strict=True)
        return True

    def __reduce__(self) -> tuple[type[Program], tuple[str, tuple[Program, ...]]]:
        # The hash of a text differs between processes, so the copy computes its own.
        return Program, (self.name, self.args)

    def __str__(self) -> str:
        pieces: list[str] = []
        ahead: list[Program | str] = [self]
        while ahead:
            piece = ahead.pop()
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            pieces.append(piece.name)
            if piece.args:
                parts: list[Program | str] = ["("]
                for argument in piece.args:
                    parts += [argument, ", "]
                parts[-1] = ")"
                ahead += reversed(parts)
        return "".join(pieces)

    def nodes(self) -> Iterator[Program]:
        """Yield every node, starting with the root."""
        ahead = [self]
        while ahead:
            node = ahead.pop()
            yield node
            ahead += reversed(node.args)


@dataclass(frozen=True)
class Vocabulary:
    """The terminals and operations that programs consist of.

    Attributes:
        terminals: Kind of each terminal, by name. A constant is a terminal whose name is a number.
        primitives: Operations, by name.
        height_limit: Maximum height of a program that is read from a text.

    Raises:
        ProgramError: A name is used twice or cannot be written in a text, or a kind is unknown.
    """

    terminals: Mapping[str, Kind]
    primitives: Mapping[str, Primitive]
    height_limit: int = 10

    def __post_init__(self) -> None:
        for name in (*self.terminals, *self.primitives):
            if not WORD.fullmatch(name) or not name.isascii():
                raise ProgramError(f"name {quoted(name)}: expected ASCII without spaces, parentheses and commas")
        for name, kind in self.terminals.items():
            if name in self.primitives:
                raise ProgramError(f"name '{name}': expected a terminal or an operation, is both")
            if kind not in get_args(Kind):
                raise ProgramError(f"terminal '{name}': expected one of {', '.join(get_args(Kind))}, got '{kind}'")

    def kind(self, program: Program) -> Kind:
        """Return the kind of a program's value.

        Raises:
            ProgramError: A name is unknown, or an operation has the wrong number or kind of arguments.
        """
        kinds: dict[Program, Kind] = {}
        for node in bottom_up(program):
            kinds[node] = self.node_kind(node, *(kinds[argument] for argument in node.args))
        return kinds[program]

    def canonical(self, program: Program) -> Program:
        """Return the canonical form: the same tree for programs that are equal, and never a larger one.

        Two programs have the same form only if their values are equal to the last bit for every input, also for
        infinities and NaN.
        """
        forms: dict[Program, Program] = {}
        for node in bottom_up(program):
            forms[node] = self._form(node.name, tuple(forms[argument] for argument in node.args))
        return forms[program]

    def node_kind(self, node: Program, *kinds: Kind) -> Kind:
        """Return the kind of a node's value from the kinds of its arguments.

        Raises:
            ProgramError: The name is unknown, or the number or the kinds of the arguments are wrong.
        """
        if node.name in self.terminals:
            if node.args:
                raise ProgramError(f"terminal '{node.name}' takes no arguments, got {len(node.args)}")
            return self.terminals[node.name]
        if node.name not in self.primitives:
            raise self.unknown(node.name)
        primitive = self.primitives[node.name]
        if len(kinds) != primitive.arity:
            plural = "s" if primitive.arity > 1 else ""
            raise ProgramError(f"{node.name} takes {primitive.arity} argument{plural}, got {len(kinds)}")
        try:
            return primitive.kind(*kinds)
        except ProgramError as error:
            raise ProgramError(f"{node.name} {error} in {quoted(str(node))}") from None

    def unknown(self, name: str) -> ProgramError:
        """Return the error for a name that is neither a terminal nor an operation."""
        known = {*self.terminals, *self.primitives}
        return ProgramError(str(unknown_name("terminal or operation", quoted(name, quote=False), known)))

    @cached_property
    def _has_rules(self) -> bool:
        """Whether the rules hold: another vocabulary may use the same names for other operations."""
        return all(PRIMITIVES.get(name, primitive) == primitive for name, primitive in self.primitives.items())

    def _form(self, name: str, args: tuple[Program, ...]) -> Program:
        """Return the canonical form of an operation whose arguments are in canonical form."""
        shorter = _rewritten(name, args) if 1 <= len(args) <= 2 and self._has_rules else None
        if shorter is not None and all(p.name in self.primitives for p in (shorter, *shorter.args) if p.args):
            return self._form(shorter.name, tuple(self._form(p.name, p.args) for p in shorter.args))
        if args and name in self.primitives and self.primitives[name].commutative:
            args = tuple(sorted(args, key=str))
        return Program(name, args)


def bottom_up(program: Program) -> Iterator[Program]:
    """Yield every distinct node once, the arguments of an operation before the operation."""
    seen: set[Program] = set()
    ahead = [(program, False)]
    while ahead:
        node, ready = ahead.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            ahead.append((node, True))
            ahead += [(argument, False) for argument in reversed(node.args)]


def quoted(text: str, length: int = 60, *, quote: bool = True) -> str:
    """Return a text, shortened and on one line, as an error message quotes it."""
    short = one_line(text if len(text) <= length else f"{text[:length]}...")
    return f"'{short}'" if quote else short


#: Operations whose result has the shape of their argument.
_KEEP_SHAPE = {
    *("log", "abslog", "abs", "square", "exp", "normalize", "relu", "sign", "heaviside", "inv", "softmax", "sigmoid"),
    *("ones_like", "zeros_like", "gt0", "lt0"),
}
#: Operations that return only 0 and 1.
_ZERO_OR_ONE = {"gt0", "lt0", "gt", "lt", "eq", "heaviside", "ones_like", "zeros_like"}
#: Operations that return no negative number and no -0.
_NOT_NEGATIVE = _ZERO_OR_ONE | {
    *("abs", "square", "exp", "relu", "softmax", "sigmoid", "frobenius", "l1", "hamming", "numel"),
    *("symeig_ratio", "eig_ratio"),
}
#: Operations that ignore the sign of their argument.
_EVEN = {"abs", "square", "abslog", "frobenius", "l1"}

#: Rules: the operations that are equal to an outer operation on an inner one. If the last of them is the inner
#: operation, it keeps its arguments; otherwise the last of them takes the arguments of the inner operation.
_RULES: dict[tuple[str, str], tuple[str, ...]] = {
    **{("l1", inner): ("mean", inner) for inner in _NOT_NEGATIVE},
    **{("abslog", inner): ("log", inner) for inner in _NOT_NEGATIVE},
    **{("lt0", inner): ("zeros_like", inner) for inner in _NOT_NEGATIVE},
    **{(outer, inner): ("zeros_like", inner) for outer in ("log", "abslog") for inner in _ZERO_OR_ONE},
    **{(outer, inner): (inner,) for outer in ("square", "sign", "gt0") for inner in _ZERO_OR_ONE},
    **{(outer, inner): (inner,) for outer in ("abs", "relu") for inner in _NOT_NEGATIVE},
    **{(outer, inner): (outer,) for outer in ("ones_like", "zeros_like", "numel") for inner in _KEEP_SHAPE},
    **{(outer, "abs"): (outer,) for outer in _EVEN},
    ("mean", "abs"): ("l1",),
    ("log", "abs"): ("abslog",),
    ("inv", "abs"): ("abs", "inv"),
    ("log", "relu"): ("log",),
    ("gt0", "relu"): ("gt0",),
    ("gt0", "sign"): ("gt0",),
    ("lt0", "sign"): ("lt0",),
    ("sign", "sign"): ("sign",),
}


def _rewritten(name: str, args: tuple[Program, ...]) -> Program | None:
    """Return an equal program that is nearer to the canonical form, or None if no rule applies."""
    if len(args) == 2:
        return _rewritten_pair(name, *args)
    x = args[0]
    if name == "heaviside":
        return Program("gt0", args)
    if (name, x.name) in _RULES and x.args:
        *outer, last = _RULES[name, x.name]
        program = x if last == x.name else Program(last, x.args)
        for operation in reversed(outer):
            program = Program(operation, (program,))
        return program
    if name in _EVEN and x.name == "sub" and str(x.args[0]) > str(x.args[1]):
        return Program(name, (Program("sub", x.args[::-1]),))
    return None


def _rewritten_pair(name: str, a: Program, b: Program) -> Program | None:
    found = None
    if name == "lt":
        found = Program("gt", (b, a))
    elif name == "gt":
        if a == b:
            found = Program("zeros_like", (a,))
        elif _fills(b, "zeros_like", a):
            found = Program("gt0", (a,))
        elif _fills(a, "zeros_like", b):
            found = Program("lt0", (b,))
    elif name == "sub" and _fills(b, "zeros_like", a):
        found = a
    elif name == "mul":
        if a == b:
            found = Program("square", (a,))
        elif _fills(a, "ones_like", b):
            found = b
        elif _fills(b, "ones_like", a):
            found = a
    elif name == "hamming":
        bare = tuple(_without(x, {"relu", "sign", "gt0", "heaviside"}) for x in (a, b))
        found = Program(name, bare) if bare != (a, b) else None
    return found


def _without(program: Program, names: set[str]) -> Program:
    while program.args and program.name in names:
        program = program.args[0]
    return program


def _fills(filled: Program, name: str, program: Program) -> bool:
    """Return whether `filled` is the canonical form of ones or zeros (`name`) in the shape of a canonical program."""
    return filled.name == name and filled.args[:1] == (_without(program, _KEEP_SHAPE),)
