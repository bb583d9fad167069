"""A safe reader of pickles from strangers: it makes objects of listed classes only and runs nothing."""

from __future__ import annotations

import bz2
import io
import pickle
import struct
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...errors import DataFileError, one_line

#: Limit in bytes for the content of a compressed file; official files have up to 600,000.
_LARGEST = 1 << 24

#: The allowed globals, each with the object that is used in its place.
Allowed = Mapping[tuple[str, str], Any]


class _Kind:
    """The replacement of `numpy.dtype`. It keeps only the code and the byte order.

    With forged flags, a real `numpy.dtype` would make numpy use bytes as memory addresses.
    """

    def __init__(self, code: str, *_: object) -> None:
        self.code = code
        self.order: object = None

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.order = state[1]


class _Array(np.ndarray[Any, np.dtype[Any]]):
    """An array of the two kinds of numbers that image files hold."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, raw = state
        super().__setstate__((1, shape, _dtype(kind), bool(fortran), raw))  # type: ignore[arg-type]


def _dtype(kind: object) -> np.dtype[Any]:
    if isinstance(kind, _Kind) and kind.code == "u1":
        return np.dtype(np.uint8)
    # Files of ImageNet16 hold the mean image beside the pixels.
    if isinstance(kind, _Kind) and (kind.code, kind.order) == ("f8", "<"):
        return np.dtype("<f8")
    raise ValueError("expected an array of uint8 or float64")


def _reconstruct(*_: object) -> _Array:
    return _Array((0,), np.uint8)


def _frombuffer(raw: Any, kind: object, shape: Any, order: str, axis_order: Any = None) -> np.ndarray[Any, Any]:
    array = np.frombuffer(raw, _dtype(kind))
    if order == "K" and axis_order is not None:
        return array.reshape(shape).transpose(axis_order)
    return array.reshape(shape, order="F" if order == "F" else "C")


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError(f"expected bytes in latin1, got {encoding}")
    return text.encode("latin1")


#: Arrays of uint8 and float64, as Python 2 and all later versions of numpy pickle them.
NUMPY: Allowed = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy._core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda: b"",
    ("builtins", "bytes"): lambda: b"",
}


def _scalar(kind: Any, raw: bytes) -> float:
    # Official records have no other kind of number.
    if not isinstance(kind, _Kind) or (kind.code, kind.order) != ("f8", "<"):
        raise ValueError("expected a number of float64")
    value: float
    (value,) = struct.unpack("<d", raw)
    return value


#: numpy's float64 numbers and ordered dictionaries, which records of trainings hold.
RECORDS: Allowed = {
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): _Kind,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
}


class Bag:
    """An object with the attributes that the pickle gives it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class _Restricted(pickle.Unpickler):
    def __init__(self, stream: io.BufferedIOBase, allowed: Allowed) -> None:
        super().__init__(stream, encoding="latin1")
        self.allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.allowed[module, name]
        except KeyError:
            raise _ForbiddenError(f"{module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise _ForbiddenError("a persistent id")


def _unpacked(packed: BinaryIO) -> io.BytesIO:
    with bz2.open(packed) as stream:
        try:
            content = stream.read(_LARGEST + 1)
        except OSError:
            raise ValueError("it is no bz2") from None
    if len(content) > _LARGEST:
        raise ValueError(f"its content has more than {_LARGEST} bytes")
    return io.BytesIO(content)


class _ForbiddenError(Exception):
    """A pickle names a global that is not allowed."""


def unpickle(path: Path, allowed: Allowed) -> Any:
    """Read one pickle from a file; the result has only plain containers, numbers, texts and allowed objects.

    Byte strings of Python 2 become latin-1 text. A file with the suffix `.pbz2` is decompressed first, up to 16 MiB.

    Raises:
        DataFileError: The file cannot be read, is torn, is no pickle, or names a global that is not allowed. Nothing
            of it was run.
    """
    try:
        with path.open("rb") as stream:
            return _Restricted(_unpacked(stream) if path.suffix == ".pbz2" else stream, allowed).load()
    except _ForbiddenError as error:
        raise DataFileError(
            f"data file {path} asks to run {error}, which no data file needs: nothing was run; get it anew"
        ) from None
    except OSError as error:
        raise DataFileError(f"data file {path} cannot be read: {error.strerror}") from None
    except Exception as error:  # a torn pickle can raise almost any error
        kind = type(error).__name__
        raise DataFileError(
            f"data file {path} is torn or not a pickle ({one_line(f'{kind}: {error}')}): get it anew"
        ) from None
