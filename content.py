"""The content of what others add: a digest of the files that their code comes from, so that edited code is new code."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGE = __name__.rpartition(".")[0]


def content_of(*things: Any) -> str:
    """Return a digest of the files that define some functions or classes, empty if all are part of zcbench.

    The files are those of the modules of the things, and of what these modules use from files in the same folder or
    below. A thing may have an attribute `content`, a text that says what it is beyond its code.
    """
    files: dict[Path, None] = {}
    texts = [text for thing in things if (text := getattr(thing, "content", ""))]
    for thing in things:
        name = getattr(thing, "__module__", None) or type(thing).__module__
        module = sys.modules.get(name)
        if module is not None and name != _PACKAGE and not name.startswith(f"{_PACKAGE}."):
            _add(module, files, None)
    if not files and not texts:
        return ""
    digest = hashlib.sha256("\0".join(map(str, texts)).encode())
    for file in sorted(files):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def of_package() -> str:
    """Return a digest of the files of zcbench that decide what a score is."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(file for room in ("datasets", "proxies", "spaces") for file in (folder / room).rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _add(module: ModuleType, files: dict[Path, None], folder: Path | None) -> None:
    """Add the file of a module, and those of what it uses from its folder."""
    path = Path(getattr(module, "__file__", None) or "")
    if path.suffix != ".py" or not path.is_file() or path.resolve() in files:
        return
    path = path.resolve()
    folder = folder or path.parent
    if not path.is_relative_to(folder):
        return
    files[path] = None
    for value in list(vars(module).values()):
        used = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        if used is not None:
            _add(used, files, folder)
