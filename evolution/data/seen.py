"""What a program has seen: the networks whose accuracies its search, or the choice of it, has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...bench.results.board import Board
from ...errors import ProgramError
from ...spaces import SPACES, Space
from .split import draw, part_of


class Recorded(Protocol):
    """A program with the record of its search."""

    @property
    def name(self) -> str:
        """Name of the proxy."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Settings of the search that found the program; empty if none did."""


def unseen(board: Board, programs: Sequence[Recorded], data: Path) -> Board:
    """Return a board without the networks that any of some programs has seen.

    These are all networks of the classes that the pool of its search lies in, and after a search by class those of the
    classes of validation that chose it among others. A file that does not say how many these were may have read all of
    them. Opened networks are unseen: an opening measures a program, and makes none. A program without grounds has seen
    nothing.

    Args:
        board: Board of any space.
        programs: Programs with their recipes.
        data: The data folder.

    Raises:
        ProgramError: A recipe does not say which networks were read.
    """
    space = SPACES[board.recipe.space](data)
    classes: set[int] = set()
    validated = False
    for program in programs:
        own, all_validation = _seen(space, program)
        classes |= own
        validated |= all_validation
    if not (classes or validated):
        return board

    def kept(index: int) -> bool:
        return space.representative(index) not in classes and not (validated and part_of(space, index) == "validation")

    return board.part({name for name in board.recipe.accuracies if kept(space.index(name))})


def grounds(program: Recorded) -> list[tuple[str, str]]:
    """Return the spaces and data sets that a program was evolved on.

    Raises:
        ProgramError: The recipe does not say it.
    """
    recipe = program.recipe
    if "pools" in recipe and "grounds" not in recipe:  # an aggregate, fitted on a board
        raise _nowhere(program)
    found = recipe.get("grounds", [])
    if not isinstance(found, list) or not all(isinstance(ground, dict) for ground in found):
        raise _nowhere(program)
    both = []
    for ground in found:
        space, dataset = ground.get("space"), ground.get("dataset")
        if not isinstance(space, str) or not isinstance(dataset, str):
            raise _nowhere(program)
        both.append((space, dataset))
    return both


def _nowhere(program: Recorded) -> ProgramError:
    return ProgramError(
        f"program {program.name}: its recipe does not say which networks it was evolved on: expected grounds, and "
        "pool, test and sample_seed as whole numbers, as `zcbench evolve` writes them, or no grounds"
    )


def _seen(space: Space, program: Recorded) -> tuple[set[int], bool]:
    """Return the classes of a space that a program has seen, and whether it may have seen all of validation."""
    recipe = program.recipe
    if space.name not in {name for name, _ in grounds(program)}:
        return set(), False
    count, seed = _whole(program, "pool", 1), _whole(program, "sample_seed", 0)
    split = recipe.get("split", "networks")
    if split == "networks":
        return {space.representative(index) for index in space.sample(min(count, space.size), seed)}, False
    if split != "classes":
        raise _nowhere(program)
    validation = _whole(program, "test", 0) if "test" in recipe else 0
    pool = draw(space, "pool", count, seed, at_most=True)
    return {*pool, *draw(space, "validation", validation, seed, at_most=True)}, "test" not in recipe


def _whole(program: Recorded, name: str, least: int) -> int:
    number = program.recipe.get(name)
    if type(number) is not int or not least <= number < 2**32:
        raise _nowhere(program)
    return number
