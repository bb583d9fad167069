"""A safe reader of pickles from strangers: a small machine that makes plain values and listed objects.

Python's own reader calls what a file names, and one wrong call can corrupt memory. This machine knows the opcodes and
makes every object itself. A global is a token on its stack: only the makers in this file give it a meaning.
"""

from __future__ import annotations

import bz2
import codecs
import gc
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataFileError, in_words

#: Limit in bytes for the content of a compressed file; official files have up to 1,400,000.
_LARGEST = 1 << 24
#: Limit for the opcodes of a file, each of which makes one small object; official files have up to 2,220,000.
_OPCODES = 1 << 22

#: The allowed globals, each with the function that makes the object from the arguments in the file.
Allowed = Mapping[tuple[str, str], Callable[..., Any]]


class Bag:
    """An object with the attributes that the pickle gives it."""


class _Kind:
    """The replacement of `numpy.dtype`. It keeps only the code and the byte order."""

    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = code, "?"

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.code == "u1":
            return np.dtype(np.uint8)
        # Files of ImageNet16 hold the mean image beside the pixels.
        if (self.code, self.order) == ("f8", "<"):
            return np.dtype("<f8")
        raise ValueError("expected an array of uint8 or float64")


class _Unfilled:
    """An array before its content has come; `memo` is where the file remembers it."""

    def __init__(self, *_: object) -> None:
        self.memo: int | None = None


class _Global:
    """A global that a file names, with what makes the object."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make


def _array(raw: Any, kind: Any, shape: Any, order: str) -> np.ndarray[Any, Any]:
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    dtype = kind.dtype if type(kind) is _Kind else None
    if dtype is None or type(raw) not in {bytes, bytearray} or type(shape) is not tuple:
        raise ValueError("expected the kind, the bytes and the shape of an array")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if order == "F" else "C").copy(order="K")


def _frombuffer(raw: Any, kind: Any, shape: Any, order: Any, axis_order: Any = None) -> np.ndarray[Any, Any]:
    array = _array(raw, kind, shape, order)
    return array.transpose(axis_order) if order == "K" and axis_order is not None else array


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError(f"expected bytes in latin1, got {encoding}")
    return text.encode("latin1")


def _scalar(kind: Any, raw: Any) -> float:
    # Official records have no other kind of number.
    if type(kind) is not _Kind or (kind.code, kind.order) != ("f8", "<"):
        raise ValueError("expected a number of float64")
    value: float
    (value,) = struct.unpack("<d", raw)
    return value


def _ordered() -> OrderedDict[Any, Any]:
    return OrderedDict()


#: Arrays of uint8 and float64, as Python 2 and all later versions of numpy pickle them.
NUMPY: Allowed = {
    ("numpy.core.multiarray", "_reconstruct"): _Unfilled,
    ("numpy._core.multiarray", "_reconstruct"): _Unfilled,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy._core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): _Unfilled,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda: b"",
    ("builtins", "bytes"): lambda: b"",
}

#: numpy's float64 numbers and ordered dictionaries, which records of trainings hold.
RECORDS: Allowed = {
    ("collections", "OrderedDict"): _ordered,
    ("numpy", "dtype"): _Kind,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
}


class _ForbiddenError(Exception):
    """A pickle names a global that is not allowed."""


_KEYS = {str, int, float, bool, bytes, type(None)}


def _key(value: Any) -> Any:
    """Return a key of a dictionary, which is a plain value or a tuple of these: nested tuples could take for ever."""
    if type(value) in _KEYS or (type(value) is tuple and all(type(part) in _KEYS for part in value)):
        return value
    raise ValueError("expected plain values as keys")


class _Machine:
    """Reads one pickle.

    Args:
        content: The bytes of the file.
        allowed: Globals that it may name.
    """

    def __init__(self, content: bytes, allowed: Allowed) -> None:
        self.content, self.allowed, self.at = content, allowed, 0
        self.left = 3 * len(content)  # bytes of arrays and encoded texts that it may make
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks before every mark
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Return the object.

        Raises:
            _ForbiddenError: A global is not allowed.
            Exception: The pickle is torn, or asks for what no data file needs.
        """
        content, steps = self.content, _TABLE
        for _ in range(_OPCODES):
            step = steps[content[self.at]]
            self.at += 1
            if step is None:
                return self.stack.pop()
            step(self)
        raise ValueError(f"expected up to {_OPCODES:,} opcodes")

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        start, self.at = self.at, self.at + count
        if count < 0 or self.at > len(self.content):
            raise ValueError("it ends too early")
        return self.content[start : self.at]

    def number(self, form: struct.Struct) -> Any:
        """Return the next number."""
        (value,) = form.unpack_from(self.content, self.at)
        self.at += form.size
        return value

    def line(self) -> bytes:
        """Return the bytes up to the end of the line."""
        return self.take(self.content.index(b"\n", self.at) + 1 - self.at)[:-1]

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def marked(self) -> list[Any]:
        """Return what lies above the last mark and remove both."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def put(self, place: int) -> None:
        """Remember the top of the stack."""
        top = self.memo[place] = self.stack[-1]
        if type(top) is _Unfilled:
            top.memo = place

    def name(self, module: str, name: str) -> None:
        """Put a global on the stack."""
        if type(module) is not str or type(name) is not str:
            raise ValueError("expected the name of a global")
        if (module, name) not in self.allowed:
            raise _ForbiddenError(f"{module}.{name}"[:200])
        self.push(_Global(self.allowed[module, name]))

    def make(self, token: Any, arguments: Any) -> None:
        """Put on the stack what a global makes of its arguments."""
        if type(token) is not _Global or type(arguments) is not tuple:
            raise ValueError("expected a global and its arguments")
        self.push(self.spent(token.make(*arguments)))

    def spent(self, made: Any) -> Any:
        """Return what was made, after counting the bytes of arrays and encoded texts."""
        if isinstance(made, bytes | np.ndarray):
            self.left -= len(made) if isinstance(made, bytes) else made.nbytes
            if self.left < 0:
                raise ValueError("its arrays are larger than the file")
        return made

    def build(self) -> None:
        """Give an object its content."""
        state, made = self.stack.pop(), self.stack.pop()
        if type(made) is Bag:
            if type(state) is not dict or not all(type(name) is str and name[:2] != "__" for name in state):
                raise ValueError("expected attributes")
            made.__dict__ = state
        elif type(made) is _Unfilled:
            _, shape, kind, fortran, raw = state
            array = self.spent(_array(raw, kind, shape, "F" if fortran else "C"))
            if made.memo is not None:
                self.memo[made.memo] = array
            made = array
        elif type(made) is _Kind:
            made.order = state[1]
        else:
            raise ValueError("expected an array, a kind of numbers or an object with attributes")
        self.push(made)

    def items(self, pairs: list[Any]) -> None:
        """Put keys and values, one after the other, into the dictionary on the stack."""
        target = self.stack[-1]
        if type(target) not in {dict, OrderedDict} or len(pairs) % 2:
            raise ValueError("expected keys and values of a dictionary")
        plain = _KEYS
        for place in range(0, len(pairs), 2):
            key = pairs[place]
            target[key if type(key) in plain else _key(key)] = pairs[place + 1]

    def extend(self, values: list[Any]) -> None:
        """Put values at the end of the list on the stack."""
        if type(self.stack[-1]) is not list:
            raise ValueError("expected a list")
        self.stack[-1].extend(values)

    def join(self, values: list[Any]) -> None:
        """Put values into the set on the stack."""
        if type(self.stack[-1]) is not set:
            raise ValueError("expected a set")
        self.stack[-1].update(map(_key, values))

    def mark(self) -> None:
        """Begin a new part of the stack."""
        self.below.append(self.stack)
        self.stack = []

    def tuple_of(self, count: int) -> None:
        """Replace the last values by a tuple of them."""
        if len(self.stack) < count:
            raise ValueError("expected more values")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def called(self) -> None:
        """Make an object from a global and a tuple on the stack."""
        arguments = self.stack.pop()
        self.make(self.stack.pop(), arguments)

    def instance(self) -> None:
        """Make an object from a global and arguments above the last mark."""
        token, *arguments = self.marked()
        self.make(token, tuple(arguments))

    def named_instance(self) -> None:
        """Make an object from a global that is named here and arguments above the last mark."""
        self.name(self.line().decode(), self.line().decode())
        self.make(self.stack.pop(), tuple(self.marked()))

    def dictionary(self, pairs: list[Any]) -> None:
        """Put a dictionary of keys and values on the stack."""
        self.push({})
        self.items(pairs)

    def forbidden(self) -> None:
        """Refuse an object that only the writer of the file has."""
        raise _ForbiddenError("a persistent id")


def _text(raw: bytes) -> str:
    """Read the text between quotes that protocol 0 of Python 2 writes."""
    if len(raw) < 2 or raw[:1] != raw[-1:] or raw[:1] not in {b"'", b'"'}:
        raise ValueError("expected a text in quotes")
    return codecs.escape_decode(raw[1:-1])[0].decode("latin1")


def _integer(raw: bytes) -> int:
    return raw == b"01" if raw in {b"00", b"01"} else int(raw.removesuffix(b"L"))


def _reads(form: struct.Struct) -> Callable[[_Machine], None]:
    """Return the step of an opcode with a number."""
    unpack, size = form.unpack_from, form.size

    def step(m: _Machine) -> None:
        m.stack.append(unpack(m.content, m.at)[0])
        m.at += size

    return step


def _recall(m: _Machine) -> None:
    """Put on the stack what the file remembers at a place below 256, the most frequent opcode."""
    m.stack.append(m.memo[m.content[m.at]])
    m.at += 1


def _holds(form: struct.Struct, decode: Callable[[bytes], Any]) -> Callable[[_Machine], None]:
    """Return the step of an opcode with a length, and as many bytes."""
    return lambda m: m.stack.append(decode(m.take(m.number(form))))


def _is(make: Callable[[], Any]) -> Callable[[_Machine], None]:
    return lambda m: m.stack.append(make())


def _latin1(raw: bytes) -> str:
    return raw.decode("latin1")


def _utf8(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _long(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


_BYTE, _SHORT, _WORD, _SIGNED, _LONG, _DOUBLE = map(struct.Struct, ("<B", "<H", "<I", "<i", "<Q", ">d"))
#: What every opcode does, as in the module `pickletools`.
_STEPS: dict[int, Callable[[_Machine], Any]] = {
    opcode[0]: step
    for opcode, step in {
        pickle.PROTO: lambda m: m.take(1),
        pickle.FRAME: lambda m: m.take(8),
        pickle.MARK: _Machine.mark,
        pickle.POP: lambda m: m.stack.pop() if m.stack else m.marked(),
        pickle.POP_MARK: _Machine.marked,
        pickle.DUP: lambda m: m.push(m.stack[-1]),
        pickle.NONE: _is(lambda: None),
        pickle.NEWTRUE: _is(lambda: True),
        pickle.NEWFALSE: _is(lambda: False),
        pickle.INT: lambda m: m.push(_integer(m.line())),
        pickle.LONG: lambda m: m.push(_integer(m.line())),
        pickle.BININT: _reads(_SIGNED),
        pickle.BININT1: _reads(_BYTE),
        pickle.BININT2: _reads(_SHORT),
        pickle.LONG1: _holds(_BYTE, _long),
        pickle.LONG4: _holds(_SIGNED, _long),
        pickle.FLOAT: lambda m: m.push(float(m.line())),
        pickle.BINFLOAT: _reads(_DOUBLE),
        pickle.STRING: lambda m: m.push(_text(m.line())),
        pickle.BINSTRING: _holds(_SIGNED, _latin1),
        pickle.SHORT_BINSTRING: _holds(_BYTE, _latin1),
        pickle.UNICODE: lambda m: m.push(m.line().decode("raw-unicode-escape")),
        pickle.SHORT_BINUNICODE: _holds(_BYTE, _utf8),
        pickle.BINUNICODE: _holds(_WORD, _utf8),
        pickle.BINUNICODE8: _holds(_LONG, _utf8),
        pickle.SHORT_BINBYTES: _holds(_BYTE, bytes),
        pickle.BINBYTES: _holds(_WORD, bytes),
        pickle.BINBYTES8: _holds(_LONG, bytes),
        pickle.BYTEARRAY8: _holds(_LONG, bytearray),
        pickle.EMPTY_LIST: _is(list),
        pickle.EMPTY_DICT: _is(dict),
        pickle.EMPTY_SET: _is(set),
        pickle.EMPTY_TUPLE: _is(tuple),
        pickle.LIST: lambda m: m.push(m.marked()),
        pickle.TUPLE: lambda m: m.push(tuple(m.marked())),
        pickle.DICT: lambda m: m.dictionary(m.marked()),
        pickle.FROZENSET: lambda m: m.push(frozenset(map(_key, m.marked()))),
        pickle.TUPLE1: lambda m: m.tuple_of(1),
        pickle.TUPLE2: lambda m: m.tuple_of(2),
        pickle.TUPLE3: lambda m: m.tuple_of(3),
        pickle.APPEND: lambda m: m.extend([m.stack.pop()]),
        pickle.APPENDS: lambda m: m.extend(m.marked()),
        pickle.ADDITEMS: lambda m: m.join(m.marked()),
        pickle.SETITEM: lambda m: m.items([m.stack.pop(-2), m.stack.pop()]),
        pickle.SETITEMS: lambda m: m.items(m.marked()),
        pickle.PUT: lambda m: m.put(int(m.line())),
        pickle.BINPUT: lambda m: m.put(m.number(_BYTE)),
        pickle.LONG_BINPUT: lambda m: m.put(m.number(_WORD)),
        pickle.MEMOIZE: lambda m: m.put(len(m.memo)),
        pickle.GET: lambda m: m.push(m.memo[int(m.line())]),
        pickle.BINGET: _recall,
        pickle.LONG_BINGET: lambda m: m.push(m.memo[m.number(_WORD)]),
        pickle.GLOBAL: lambda m: m.name(m.line().decode(), m.line().decode()),
        pickle.STACK_GLOBAL: lambda m: m.name(m.stack.pop(-2), m.stack.pop()),
        pickle.REDUCE: _Machine.called,
        pickle.NEWOBJ: _Machine.called,
        pickle.OBJ: _Machine.instance,
        pickle.INST: _Machine.named_instance,
        pickle.BUILD: _Machine.build,
        pickle.PERSID: _Machine.forbidden,
        pickle.BINPERSID: _Machine.forbidden,
    }.items()
}


def _unknown(_: _Machine) -> None:
    raise ValueError("expected an opcode of a pickle")


_TABLE = [None if opcode == pickle.STOP[0] else _STEPS.get(opcode, _unknown) for opcode in range(256)]


def _content(path: Path) -> bytes:
    if path.suffix != ".pbz2":
        return path.read_bytes()
    with path.open("rb") as packed, bz2.open(packed) as stream:
        try:
            content = stream.read(_LARGEST + 1)
        except OSError:
            raise ValueError("it is no bz2") from None
    if len(content) > _LARGEST:
        raise ValueError(f"its content has more than {_LARGEST} bytes")
    return content


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch the search for cycles off: among 300,000 new objects it takes about as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def unpickle(path: Path, allowed: Allowed) -> Any:
    """Read one pickle from a file; the result has only plain containers, numbers, texts and allowed objects.

    Byte strings of Python 2 become latin-1 text. A file with the suffix `.pbz2` is decompressed first, up to 16 MiB.

    Args:
        path: Path of the file.
        allowed: Globals that the pickle may name, each with the function that makes the object.

    Raises:
        DataFileError: The file cannot be read, is torn, is no pickle, or names a global that is not allowed. Nothing
            of it was run.
    """
    try:
        with _no_garbage_collection():
            return _Machine(_content(path), allowed).load()
    except _ForbiddenError as error:
        raise DataFileError(
            f"data file {path} asks to run {error}, which no data file needs: nothing was run; get it again"
        ) from None
    except OSError as error:
        raise DataFileError(f"data file {path} cannot be read: {error.strerror}") from None
    except Exception as error:  # a torn pickle can raise almost any error
        raise DataFileError(f"data file {path} is torn or not a pickle ({in_words(error)}): get it again") from None
