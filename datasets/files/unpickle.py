"""Pickles from strangers: only named classes are made, nothing is run."""

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

#: Bytes that a packed file may unpack to; official ones have up to 600,000.
_LARGEST = 1 << 24

#: Globals that may appear, and what stands in for them.
Allowed = Mapping[tuple[str, str], Any]


class _Kind:
    """Stands in for `numpy.dtype`, keeping its code and byte order alone.

    Forged flags make numpy take bytes for addresses.
    """

    def __init__(self, code: str, *_: object) -> None:
        self.code = code
        self.order: object = None

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.order = state[1]


class _Array(np.ndarray[Any, np.dtype[Any]]):
    """An array of plain numbers, of the kinds that image files hold."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, raw = state
        super().__setstate__((1, shape, _dtype(kind), bool(fortran), raw))  # type: ignore[arg-type]


def _dtype(kind: object) -> np.dtype[Any]:
    if isinstance(kind, _Kind) and kind.code == "u1":
        return np.dtype(np.uint8)
    # ImageNet16 keeps the mean image beside the pixels.
    if isinstance(kind, _Kind) and (kind.code, kind.order) == ("f8", "<"):
        return np.dtype("<f8")
    raise ValueError("an array of other than uint8 or float64")


def _reconstruct(*_: object) -> _Array:
    return _Array((0,), np.uint8)


def _frombuffer(raw: Any, kind: object, shape: Any, order: str, axis_order: Any = None) -> np.ndarray[Any, Any]:
    array = np.frombuffer(raw, _dtype(kind))
    if order == "K" and axis_order is not None:
        return array.reshape(shape).transpose(axis_order)
    return array.reshape(shape, order="F" if order == "F" else "C")


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError(f"bytes in {encoding}")
    return text.encode("latin1")


#: Arrays of uint8 and float64, as Python 2 and every numpy since have pickled them.
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
    # A numpy number is a float here; no other kind is in official records.
    if not isinstance(kind, _Kind) or (kind.code, kind.order) != ("f8", "<"):
        raise ValueError("a number of other than float64")
    value: float
    (value,) = struct.unpack("<d", raw)
    return value


#: Numbers of numpy's float64 and ordered dictionaries, as records of trainings hold them.
RECORDS: Allowed = {
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): _Kind,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
}


class Bag:
    """An object with whatever attributes the pickle gives it."""

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
        except OSError:  # bz2's own, which has no number
            raise ValueError("no bz2") from None
    if len(content) > _LARGEST:
        raise ValueError(f"more than {_LARGEST} bytes")
    return io.BytesIO(content)


class _ForbiddenError(Exception):
    """The pickle names something that is not on the list."""


def unpickle(path: Path, allowed: Allowed) -> Any:
    """Read one pickle from a file, making nothing but plain containers, numbers, texts and what is allowed.

    Python 2 byte strings are read as latin-1 text. A file that ends in `.pbz2` is unpacked first, to 16 MiB at most.

    Raises:
        DataFileError: The file cannot be read, is torn, is no pickle, or names a global that is not allowed; nothing
            of it was run.
    """
    try:
        with path.open("rb") as stream:
            return _Restricted(_unpacked(stream) if path.suffix == ".pbz2" else stream, allowed).load()
    except _ForbiddenError as error:
        raise DataFileError(
            f"data file {path} asks to run {error}, which a data file has no reason to: nothing was run; get it anew"
        ) from None
    except OSError as error:
        raise DataFileError(f"data file {path} cannot be read: {error.strerror}") from None
    except Exception as error:  # a torn pickle can raise almost anything
        kind = type(error).__name__
        raise DataFileError(
            f"data file {path} is torn or not a pickle ({one_line(f'{kind}: {error}')}): get it anew"
        ) from None
