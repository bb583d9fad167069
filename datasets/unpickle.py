"""Pickles from strangers: only named classes are made, nothing is run."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataFileError, one_line

#: Globals that may appear, and what stands in for them.
Allowed = Mapping[tuple[str, str], Any]

# A numpy array, as Python 2 and every numpy since have pickled it.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]
NUMPY: Allowed = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
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


class _ForbiddenError(Exception):
    """The pickle names something that is not on the list."""


def unpickle(path: Path, allowed: Allowed) -> Any:
    """Read one pickle from a file, making nothing but plain containers, numbers, texts and what is allowed.

    Python 2 byte strings are read as latin-1 text.

    Raises:
        DataFileError: The file cannot be read, is torn, is no pickle, or names a global that is not allowed; nothing
            of it was run.
    """
    try:
        with path.open("rb") as stream:
            return _Restricted(stream, allowed).load()
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
