"""The second language: formulas over the layer table, whose value for a network is one number.

A value is `(maps,)` float64, one number for each feature map of each network, or `(networks,)` float64, called a
scalar. Networks lie behind each other, and `Networks` says where each begins. A scalar beside a number for each map is
repeated for the maps of its network. A reduction makes a scalar.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .primitives import MAP, REDUCE, Kind, Primitive, Signature
from .programs import Program, Vocabulary

#: Version of the operations. It is raised whenever an operation gives another value than before.
VERSION = 1

Vector = NDArray[np.float64]

#: Constants that programs may read.
CONSTANTS = ("0.5", "1", "2", "10")

PRIMITIVES: dict[str, Primitive] = {}
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Networks:
    """Where the maps of each network lie.

    Attributes:
        counts: Number of maps of each network `(networks,)`, at least 1.
    """

    counts: NDArray[np.intp]

    @functools.cached_property
    def starts(self) -> NDArray[np.intp]:
        """Position of the first map of each network."""
        return np.concatenate([[0], np.cumsum(self.counts)[:-1]]).astype(np.intp)


def _primitive(kind: Signature, *, commutative: bool = False) -> Callable[[F], F]:
    def add(function: F) -> F:
        name = function.__name__.removeprefix("_")
        # The first argument of a reduction says where networks begin.
        arity = len(inspect.signature(function).parameters) - (kind is REDUCE)
        PRIMITIVES[name] = Primitive(name, function, arity, kind, commutative)
        return function

    return add


@_primitive(MAP, commutative=True)
def _add(a: Vector, b: Vector) -> Vector:
    """$a + b$."""
    return a + b


@_primitive(MAP)
def _sub(a: Vector, b: Vector) -> Vector:
    """$a - b$."""
    return a - b


@_primitive(MAP, commutative=True)
def _mul(a: Vector, b: Vector) -> Vector:
    """$a b$."""
    return a * b


@_primitive(MAP)
def _div(a: Vector, b: Vector) -> Vector:
    """$a / b$; 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b != 0)


@_primitive(MAP, commutative=True)
def _larger(a: Vector, b: Vector) -> Vector:
    """The larger of a and b."""
    return np.maximum(a, b)


@_primitive(MAP, commutative=True)
def _smaller(a: Vector, b: Vector) -> Vector:
    """The smaller of a and b."""
    return np.minimum(a, b)


@_primitive(MAP)
def _log(a: Vector) -> Vector:
    r"""$\operatorname{sign}(a) \ln(1 + |a|)$."""
    return np.sign(a) * np.log1p(np.abs(a))


@_primitive(MAP)
def _sqrt(a: Vector) -> Vector:
    r"""$\sqrt{|a|}$."""
    return np.sqrt(np.abs(a))


@_primitive(MAP)
def _square(a: Vector) -> Vector:
    """$a^2$."""
    return a * a


@_primitive(REDUCE)
def _sum(networks: Networks, a: Vector) -> Vector:
    """Sum over the maps of a network."""
    return np.add.reduceat(a, networks.starts)


@_primitive(REDUCE)
def _mean(networks: Networks, a: Vector) -> Vector:
    """Mean over the maps of a network."""
    return np.add.reduceat(a, networks.starts) / networks.counts


@_primitive(REDUCE)
def _least(networks: Networks, a: Vector) -> Vector:
    """The least over the maps of a network."""
    return np.minimum.reduceat(a, networks.starts)


@_primitive(REDUCE)
def _most(networks: Networks, a: Vector) -> Vector:
    """The largest over the maps of a network."""
    return np.maximum.reduceat(a, networks.starts)


def vocabulary(columns: Sequence[str], height_limit: int = 10) -> Vocabulary:
    """Return a vocabulary of columns and constants as terminals, and of the operations above."""
    terminals: dict[str, Kind] = {**dict.fromkeys(columns, "tensor"), **dict.fromkeys(CONSTANTS, "scalar")}
    return Vocabulary(terminals, PRIMITIVES, height_limit)


#: A value, and whether it is a scalar.
Value = tuple[bool, Vector]


def scores(
    program: Program, columns: Mapping[str, Vector], networks: Networks, memo: dict[Program, Value] | None = None
) -> Vector:
    """Return the scores `(networks,)` of a program: its value, or the mean over maps if it is no scalar.

    Args:
        program: Formula.
        networks: Where the maps of each network lie.
        columns: Numbers `(maps,)` of the columns that it reads, by name.
        memo: Values of subtrees on the same networks, which are kept there.
    """
    with np.errstate(all="ignore"):
        scalar, value = _value(program, columns, networks, {} if memo is None else memo)
        return value if scalar else _mean(networks, value)


def _value(program: Program, columns: Mapping[str, Vector], networks: Networks, memo: dict[Program, Value]) -> Value:
    if program not in memo:
        memo[program] = _computed(program, columns, networks, memo)
    return memo[program]


def _computed(program: Program, columns: Mapping[str, Vector], networks: Networks, memo: dict[Program, Value]) -> Value:
    if program.name in CONSTANTS:
        return True, np.full(len(networks.counts), float(program.name))
    if not program.args:
        return False, columns[program.name]
    arguments = [_value(argument, columns, networks, memo) for argument in program.args]
    primitive = PRIMITIVES[program.name]
    if primitive.kind is REDUCE:
        ((_, value),) = arguments
        return True, primitive.function(networks, value)
    scalar = all(each for each, _ in arguments)
    wide = [v if each == scalar else np.repeat(v, networks.counts) for each, v in arguments]
    return scalar, primitive.function(*wide)
