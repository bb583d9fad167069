"""What others add: a file named on the command line, or an installed package that declares an entry point.

Both are ordinary modules that register what they bring when they are imported: `SPACES.add`, `DATASETS.add`,
`TASKS.add` or `@register` for a proxy. A JSON file is a program that `zcbench evolve` has found. A package declares

    [project.entry-points."zcbench"]
    my_space = "my_package.my_space"
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path

from .errors import ConfigError

GROUP = "zcbench"


def load(files: Iterable[str | Path] = ()) -> None:
    """Import what is installed under the entry point group `zcbench`, then these files; a second time does nothing.

    A file is imported under its own name, its folder being put last on the path, so that worker processes find it too.

    Raises:
        ConfigError: A file is absent, its name is taken by another module, or it fails when it is run.
    """
    for entry in entry_points(group=GROUP):
        _run(entry.module, f"entry point {entry.name} = {entry.value}")
    for file in files:
        path = Path(file).absolute()
        if path.suffix == ".json":
            from .evolution.found import register

            register(path)
            continue
        if not path.is_file() or path.suffix != ".py" or not path.stem.isidentifier():
            raise ConfigError(f"include: expected a Python file whose name is an identifier, got {file}")
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        # Within a second of its last look, Python would not notice a new file.
        importlib.invalidate_caches()
        found = importlib.util.find_spec(path.stem)
        if found is None or found.origin is None or Path(found.origin).resolve() != path.resolve():
            raise ConfigError(
                f"include: {file} has the name of another module ({found and found.origin}): rename the file"
            )
        _run(path.stem, f"include: {file}")


def _run(module: str, where: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever somebody else's code may raise
        raise ConfigError(f"{where} fails: {type(error).__name__}: {error}") from None
