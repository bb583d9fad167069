"""How programs are grown, crossed and mutated; every draw comes from the generator that is handed in.

All programs are in their canonical form.

DEAP's own operators on typed trees order types by their address in memory, so that a run cannot be repeated. Here a
program is never changed: what an operator returns is new.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ...errors import ProgramError
from .primitives import Kind
from .programs import Program, Vocabulary

#: What matters where a tree is cut: a mask is a tensor like any other.
Sort = Literal["tensor", "scalar"]


@dataclass(frozen=True)
class Trees:
    """Programs as they are: expression trees whose every argument is of a sort that its primitive takes.

    Attributes:
        vocabulary: Terminals and primitives.
    """

    vocabulary: Vocabulary

    @cached_property
    def signatures(self) -> Mapping[Sort, Mapping[str, Sequence[tuple[Sort, ...]]]]:
        """The sorts of arguments by the sort of the result and the name of the primitive."""
        found: dict[Sort, dict[str, list[tuple[Sort, ...]]]] = {"tensor": {}, "scalar": {}}
        sorts: tuple[Sort, ...] = ("tensor", "scalar")
        for name, primitive in self.vocabulary.primitives.items():
            for arguments in itertools.product(sorts, repeat=primitive.arity):
                try:
                    kind = primitive.kind(*arguments)
                except ProgramError:
                    continue
                found[sort(kind)].setdefault(name, []).append(arguments)
        return found

    @cached_property
    def terminals(self) -> Mapping[Sort, Sequence[str]]:
        """The names of terminals by sort."""
        found: dict[Sort, list[str]] = {"tensor": [], "scalar": []}
        for name, kind in self.vocabulary.terminals.items():
            found[sort(kind)].append(name)
        return found

    def grow(self, rng: random.Random, low: int, high: int, wanted: Sort | None = None) -> Program:
        """Grow a program of a height drawn between two (Koza, 1992).

        Half of them have all leaves at that height; in the others every node is a terminal with the share that
        terminals have of all names.

        Args:
            rng: Where draws come from.
            low: The least height.
            high: The greatest.
            wanted: What the program gives; either sort if None.
        """
        height = rng.randint(low, high)
        full = rng.random() < 0.5
        terminals, primitives = len(self.vocabulary.terminals), len(self.vocabulary.primitives)
        share = 0.0 if full else terminals / (terminals + primitives)
        return self.express(self._grown(rng, wanted, height, low, share))

    def _grown(self, rng: random.Random, wanted: Sort | None, height: int, least: int, share: float) -> Program:
        if wanted is None:
            sorts: tuple[Sort, ...] = ("tensor", "scalar")
            return self._grown(rng, rng.choice([s for s in sorts if self.signatures[s]]), height, least, share)
        terminals = self.terminals[wanted]
        if terminals and (height <= 0 or (least <= 0 and rng.random() < share)):
            return Program(rng.choice(terminals))
        options = self.signatures[wanted]
        if height <= 1:  # arguments are leaves, so they must be of a sort that has some
            options = {
                name: fitting
                for name, found in options.items()
                if (fitting := [arguments for arguments in found if all(self.terminals[a] for a in arguments)])
            }
        name = rng.choice(list(options))
        arguments = rng.choice(options[name])
        return Program(name, tuple(self._grown(rng, a, height - 1, least - 1, share) for a in arguments))

    def cross(self, rng: random.Random, first: Program, second: Program) -> Program:
        """Replace a part of the first program by a part of the second that is of the same sort (one point).

        The first itself where no parts fit. Roots are neither replaced nor taken, as in DEAP.
        """
        own, others = ([(path, self._sort(at(p, path))) for path in paths(p) if path] for p in (first, second))
        common = [s for s in ("tensor", "scalar") if any(s == o for _, o in own) and any(s == o for _, o in others)]
        if not common:
            return first
        wanted = rng.choice(common)
        place = rng.choice([path for path, found in own if found == wanted])
        part = rng.choice([path for path, found in others if found == wanted])
        return self.express(put(first, place, at(second, part)))

    def mutate(self, rng: random.Random, program: Program, low: int = 0, high: int = 5) -> Program:
        """Replace a part of a program, or all of it, by one that is grown."""
        place = rng.choice(list(paths(program)))
        fresh = self.grow(rng, low, high, self._sort(at(program, place)) if place else None)
        return self.express(put(program, place, fresh))

    def express(self, genome: Program) -> Program:
        """Return the canonical form."""
        return self.vocabulary.canonical(genome)

    def parse(self, text: str) -> Program:
        """Return the program that a text stands for.

        Raises:
            ProgramError: It stands for none.
        """
        return self.vocabulary.parse(text)

    def _sort(self, program: Program) -> Sort:
        return sort(self.vocabulary.kind(program))


def sort(kind: Kind) -> Sort:
    """Return what a kind is where trees are cut."""
    return "scalar" if kind == "scalar" else "tensor"


Path = tuple[int, ...]


def paths(program: Program) -> Iterator[Path]:
    """Yield the way to every node, the root first: which argument to take at every step."""
    yield ()
    for place, argument in enumerate(program.args):
        for path in paths(argument):
            yield (place, *path)


def at(program: Program, path: Path) -> Program:
    """Return the part of a program that a path leads to."""
    for place in path:
        program = program.args[place]
    return program


def put(program: Program, path: Path, part: Program) -> Program:
    """Return the program with another part at the end of a path."""
    if not path:
        return part
    first, *rest = path
    arguments = list(program.args)
    arguments[first] = put(arguments[first], tuple(rest), part)
    return Program(program.name, tuple(arguments))
