"""What others add: a file named on the command line, or an installed package that declares an entry point.

A Python file, or the module of an entry point, registers what it brings when it is imported: `SPACES.add`,
`DATASETS.add`, `TASKS.add` or `@register` for a proxy. A package declares

    [project.entry-points."zcbench"]
    my_space = "my_package.my_space"

A file of another kind goes to the loader of its suffix, a function of the path. A package declares

    [project.entry-points."zcbench.loaders"]
    json = "my_package.my_format:register"
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import ConfigError

MODULES = "zcbench"
LOADERS = "zcbench.loaders"


def load(files: Sequence[str] | Sequence[Path] = (), argument: str = "include") -> None:
    """Import the modules of all entry points, then load the files; loading a file twice changes nothing.

    A Python file is imported under its own name. Its folder is put last on the path, so that worker processes find it.
    `argument` is the name of the argument that names the files, for errors.

    Raises:
        ConfigError: A file is absent, its name is taken by another module, or it fails when it is run.
    """
    for entry in entry_points(group=MODULES):
        _run(entry.module, f"entry point {entry.name} = {entry.value}")
    loaders = {f".{entry.name}": entry for entry in entry_points(group=LOADERS)}
    for file in files:
        path = Path(file).absolute()
        if path.suffix in loaders:
            loaders[path.suffix].load()(path)
        else:
            module_of(file, argument)


@contextlib.contextmanager
def current_folder() -> Iterator[None]:
    """Let modules of the current folder be imported, before all others."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def named(text: str, argument: str, kind: str) -> Any:
    """Return what `MODULE:NAME` names; the module may be in the current folder.

    Args:
        text: The text that somebody has given.
        argument: Name of the argument, for errors.
        kind: Kind of what is named, for errors: FACTORY, for example.

    Raises:
        ConfigError: The text has another form, there is no such module or name, or the module fails when it is run.
    """
    module, _, name = text.partition(":")
    if not module or not name:
        raise ConfigError(f"{argument}: expected MODULE:{kind}, got '{text}'")
    importlib.invalidate_caches()  # as in module_of
    try:
        with current_folder():
            return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{argument}: cannot find {text} ({error}): expected MODULE:{kind}, MODULE importable"
        ) from None
    except (Exception, SystemExit) as error:  # code of others may raise anything
        raise ConfigError(f"{argument}: importing {module} raises {type(error).__name__} ({error})") from None


def module_of(file: str | Path, argument: str = "include") -> ModuleType:
    """Import a Python file under its own name and return the module; its folder is put last on the path.

    Raises:
        ConfigError: The file is absent, its name is taken by another module, or it fails when it is run.
    """
    path = Path(file).absolute()
    if not path.is_file():
        why = "which is a folder" if path.is_dir() else "which does not exist"
        raise ConfigError(f"{argument}: expected a Python file, got {file}, {why}")
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise ConfigError(f"{argument}: expected a Python file whose name is an identifier, got {file}")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    # Python caches the listing of a folder and would miss a file that is newer than the listing.
    importlib.invalidate_caches()
    found = importlib.util.find_spec(path.stem)
    if found is None or found.origin is None or Path(found.origin).resolve() != path.resolve():
        taken = found and found.origin
        raise ConfigError(f"{argument}: {file} has the name of another module ({taken}): rename the file")
    return _run(path.stem, f"{argument}: {file}")


def _run(module: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # code of others may raise anything
        raise ConfigError(f"{where} fails: {type(error).__name__}: {error}") from None
