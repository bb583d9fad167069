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

    These are the pool of its search, by network or by class as the search drew it, and after a search by class the
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
    indices: set[int] = set()
    classes: set[int] = set()
    validated = False
    for program in programs:
        try:
            own, own_classes, all_validation = _seen(space, program)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise nowhere(program.name) from None
        indices |= own
        classes |= own_classes
        validated |= all_validation
    if not (indices or classes or validated):
        return board

    def kept(index: int) -> bool:
        if index in indices or (classes and space.representative(index) in classes):
            return False
        return not validated or part_of(space, index) != "validation"

    return board.part({name for name in board.recipe.accuracies if kept(space.index(name))})


def grounds(program: Recorded) -> list[tuple[str, str]]:
    """Return the spaces and data sets that a program was evolved on.

    Raises:
        ProgramError: The recipe does not say it.
    """
    try:
        if "pools" in program.recipe and "grounds" not in program.recipe:  # an aggregate, fitted on a board
            raise LookupError("grounds")
        return [(str(ground["space"]), str(ground["dataset"])) for ground in program.recipe.get("grounds", ())]
    except (LookupError, TypeError):
        raise nowhere(program.name) from None


def nowhere(name: str) -> ProgramError:
    """Return the error of a program whose recipe does not say what it has seen."""
    return ProgramError(
        f"program {name}: its recipe does not say which networks it was evolved on: expected grounds, pool and "
        "sample_seed, as `zcbench evolve` writes them, or no grounds"
    )


def _seen(space: Space, program: Recorded) -> tuple[set[int], set[int], bool]:
    """Return the networks and the classes of a space that a program has seen, and whether it may be all validation."""
    indices: set[int] = set()
    classes: set[int] = set()
    validated = False
    recipe = program.recipe
    if any(name == space.name for name, _ in grounds(program)):
        count, seed = int(recipe["pool"]), int(recipe["sample_seed"])
        if recipe.get("split") == "classes":
            classes |= set(draw(space, "pool", count, seed))
            if "test" in recipe:
                classes |= set(draw(space, "validation", int(recipe["test"]), seed))
            else:
                validated = True
        else:
            indices |= set(space.sample(count, seed))
    return indices, classes, validated
