"""The order of the house: rooms are not too full, functions are not too long, and every public name is explained."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
import zcbench

ROOT = Path(zcbench.__file__).parent
ROOMS = ("bench", "cli", "configs", "datasets", "evolution", "proxies", "spaces", "tools")
FILES = [*ROOT.glob("*.py"), *(path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda path: path.name)
def test_no_room_is_full(folder: Path) -> None:
    """A room has 14 files at most, or it has rooms of its own. `proxies` has one file for each proxy, and `passes`."""
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    rooms = [path for path in folder.iterdir() if (path / "__init__.py").exists()]
    assert len(files) <= 14 or rooms, f"{folder.name} has {len(files)} files"


def test_functions_are_short() -> None:
    """The median is 9 lines at most, and none has more than 60."""
    lengths = {f"{path.relative_to(ROOT)}:{f.name}": length(f) for path in FILES for f in functions(path)}
    assert not {name: lines for name, lines in lengths.items() if lines > 60}
    assert statistics.median(lengths.values()) <= 9


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_names_have_a_docstring_and_annotations(path: Path) -> None:
    """Every public class, function and method has both."""
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    assert all(ast.get_docstring(node) for node in classes)
    owners = [tree, *classes]
    for function in (node for owner in owners for node in owner.body if isinstance(node, Function)):
        if not function.name.startswith("_"):
            assert ast.get_docstring(function), function.name
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            assert all(a.annotation for a in arguments if a.arg not in {"self", "cls"}), function.name
            assert function.returns is not None, function.name
