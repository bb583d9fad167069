"""What a leaderboard shows of a program that a search found: its tree, and a name that says what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...bench.report.beside import Program as Shown
from ...errors import ProgramError, in_words
from ..data.layers import COLUMNS
from ..engine.pools import is_constant
from ..language import layers
from ..language.primitives import PRIMITIVES, Primitive
from ..language.programs import Program
from .found import read as read_found

#: What the tensors around a convolution are.
PLACES = {
    "T1": "the input of the ReLU",
    "T2": "the input of the convolution",
    "T3": "the weight of the convolution",
    "T4": "the output of the batch norm",
}
#: What the network is given when the tensors are read.
INPUTS = {"D": "on images", "N": "on noise", "P": "as it changes when the images are perturbed"}

#: Operations that are explained, by what programs are over.
KNOWN: Mapping[str, Mapping[str, Primitive]] = {"statistics": PRIMITIVES, "layers": layers.PRIMITIVES}


def programs(paths: Iterable[Path]) -> list[Shown]:
    """Return what is shown of the program files of some paths, which are files or folders of files.

    Raises:
        ProgramError: A file is no program file, a folder has none, or two programs have one name.
    """
    found: dict[str, Shown] = {}
    for path in paths:
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not files:
            raise ProgramError(f"programs: expected a folder with program files of zcbench evolve, got {path}")
        for shown in map(read, files):
            if shown.name in found:
                raise ProgramError(f"programs: expected one file of each program, got two of {shown.name}")
            found[shown.name] = shown
    return list(found.values())


def read(path: Path) -> Shown:
    """Return what is shown of a program file.

    Raises:
        ProgramError: The file is no program file, or has no Kendall's tau of the networks that it was evolved on.
    """
    found = read_found(path)
    program = found.tree()
    terminals = sorted({node.name for node in program.nodes() if not node.args and not is_constant(node.name)})
    fitted = found.recipe.get("tau", {})
    # The coefficient by pool is that of the objective, so a gain is no tau.
    kind = str(found.recipe.get("objective", "tau"))
    if isinstance(fitted, int | float):  # of several pools the least
        fitted, kind = {"the pool where its tau is least": fitted}, "tau"
    if not isinstance(fitted, dict) or not all(isinstance(tau, int | float) for tau in fitted.values()):
        raise ProgramError(f"program {path}: recipe: expected a number tau for each pool, got {str(fitted)[:80]!r}")
    return Shown(
        found.name,
        f"{program.name} of {_and(terminals)}" if program.args else program.name,
        found.program,
        nested(program),
        {name: COLUMNS[name].summary if found.over == "layers" else words(name) for name in terminals},
        operations(program, known) if (known := KNOWN.get(found.over)) else {},
        found.direction == "higher",
        {f"{kind} on {ground}": float(value) for ground, value in fitted.items()},
        dict(_opening(path, record) for record in found.openings if "begun" not in record),
    )


def _opening(path: Path, record: Mapping[str, Any]) -> tuple[str, tuple[float, float, float]]:
    """Return what was opened and when, and tau with its interval there."""
    try:
        what = f"{int(record['n'])} sealed networks of {record['space']} on {record['dataset']}, {record['date']}"
        return what, (float(record["tau"]), float(record["tau_low"]), float(record["tau_high"]))
    except (LookupError, TypeError, ValueError) as error:
        raise ProgramError(
            f"program {path}: expected openings that zcbench evolve --open wrote ({in_words(error)})"
        ) from None


def operations(program: Program, known: Mapping[str, Primitive]) -> dict[str, str]:
    """Return what each operation of a program computes, from the root on."""
    return {node.name: _plain(known[node.name].summary) for node in program.nodes() if node.args}


def _plain(summary: str) -> str:
    r"""Return a summary without the marks of LaTeX.

    >>> _plain(r"$\operatorname{sign}(a) \ln(1 + |a|)$.")
    'sign(a) ln(1 + |a|).'
    """
    return re.sub(r"\\operatorname|[${}\\]", "", summary)


def nested(program: Program) -> list[Any]:
    """Return a program as lists: the name of the root, followed by its arguments."""
    return [program.name, *map(nested, program.args)]


def words(terminal: str) -> str:
    """Say what a terminal is; the name of a proxy is its score.

    >>> words("T3G_D")
    'the gradient of the weight of the convolution, on images'
    """
    parts = re.fullmatch(r"(T[1-4])(G?)(?:_([DNP]))?", terminal)
    if not parts:
        return f"the score of {terminal}"
    place, gradient, given = parts.groups()
    return ("the gradient of " if gradient else "") + PLACES[place] + (f", {INPUTS[given]}" if given else "")


def _and(names: list[str]) -> str:
    """Join names as a sentence does."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
