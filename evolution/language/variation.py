"""Expression trees as an evolution breeds them: programs are grown, crossed and mutated.

Every random draw comes from the generator that the caller passes. All programs are in canonical form. An operator
returns a new program and changes none. DEAP's own operators on typed trees are not used, because they order types by
their address in memory, so that a run cannot be repeated.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ...errors import ProgramError
from .parse import parse
from .primitives import Kind
from .programs import Program, Vocabulary

#: Kind of a subtree that can be replaced by another of the same sort. A mask counts as a tensor.
Sort = Literal["tensor", "scalar"]
SORTS: tuple[Sort, ...] = ("tensor", "scalar")


@dataclass(frozen=True)
class Trees:
    """The representation of programs as expression trees: every argument has a sort that its operation accepts."""

    vocabulary: Vocabulary

    @cached_property
    def signatures(self) -> Mapping[Sort, Mapping[str, Sequence[tuple[Sort, ...]]]]:
        """Accepted sorts of arguments, by the sort of the result and the name of the operation."""
        found: dict[Sort, dict[str, list[tuple[Sort, ...]]]] = {"tensor": {}, "scalar": {}}
        for name, primitive in self.vocabulary.primitives.items():
            for arguments in itertools.product(SORTS, repeat=primitive.arity):
                try:
                    kind = primitive.kind(*arguments)
                except ProgramError:
                    continue
                found[sort(kind)].setdefault(name, []).append(arguments)
        return found

    @cached_property
    def terminals(self) -> Mapping[Sort, Sequence[str]]:
        """Names of terminals, by sort."""
        found: dict[Sort, list[str]] = {"tensor": [], "scalar": []}
        for name, kind in self.vocabulary.terminals.items():
            found[sort(kind)].append(name)
        return found

    def grow(self, rng: random.Random, low: int, high: int, wanted: Sort | None = None) -> Program:
        """Grow a random program ("ramped half-and-half", Koza, 1992).

        The height is drawn from `low` to `high`. Half of the programs have all leaves at that height. In the other
        half, a node becomes a terminal with the probability that a random name is a terminal. `wanted` is the sort of
        the program's value; None for either sort.
        """
        height = rng.randint(low, high)
        full = rng.random() < 0.5
        terminals, primitives = len(self.vocabulary.terminals), len(self.vocabulary.primitives)
        share = 0.0 if full else terminals / (terminals + primitives)
        return self.express(self._grown(rng, wanted, height, low, share))

    def _grown(self, rng: random.Random, wanted: Sort | None, height: int, least: int, share: float) -> Program:
        sorts = [s for s in SORTS if self.signatures[s]]
        own = rng.choice(sorts) if wanted is None else wanted
        terminals = self.terminals[own]
        if terminals and (height <= 0 or (least <= 0 and rng.random() < share)):
            return Program(rng.choice(terminals))
        options = self.signatures[own]
        if height <= 1:  # the arguments are leaves, so their sorts must have terminals
            options = {
                name: fitting
                for name, found in options.items()
                if (fitting := [arguments for arguments in found if all(self.terminals[a] for a in arguments)])
            }
        name = rng.choice(list(options))
        arguments = rng.choice(options[name])
        return Program(name, tuple(self._grown(rng, a, height - 1, least - 1, share) for a in arguments))

    def cross(self, rng: random.Random, first: Program, second: Program) -> Program:
        """Replace a subtree of the first program by a subtree of the second of the same sort (one-point crossover).

        The first program is returned if no subtrees fit. As in DEAP, a root is neither replaced nor inserted.
        """
        own, others = ([(path, self._sort(at(p, path))) for path in paths(p) if path] for p in (first, second))
        common = [s for s in SORTS if any(s == o for _, o in own) and any(s == o for _, o in others)]
        if not common:
            return first
        wanted = rng.choice(common)
        place = rng.choice([path for path, found in own if found == wanted])
        part = rng.choice([path for path, found in others if found == wanted])
        return self.express(put(first, place, at(second, part)))

    def mutate(self, rng: random.Random, program: Program, low: int = 0, high: int = 5) -> Program:
        """Replace a subtree, or the whole program, by a program that is grown at random."""
        place = rng.choice(list(paths(program)))
        fresh = self.grow(rng, low, high, self._sort(at(program, place)) if place else None)
        return self.express(put(program, place, fresh))

    def express(self, genome: Program) -> Program:
        """Return the canonical form of a program."""
        return self.vocabulary.canonical(genome)

    def parse(self, text: str) -> Program:
        """Return the program that a text describes.

        Raises:
            ProgramError: The text describes no program of the vocabulary.
        """
        return parse(self.vocabulary, text)

    def _sort(self, program: Program) -> Sort:
        return sort(self.vocabulary.kind(program))


def sort(kind: Kind) -> Sort:
    """Return the sort of a kind: a mask counts as a tensor."""
    return "scalar" if kind == "scalar" else "tensor"


#: The argument to take at every step from the root to a node.
Path = tuple[int, ...]


def paths(program: Program) -> Iterator[Path]:
    """Yield the path to every node, starting with the root."""
    yield ()
    for place, argument in enumerate(program.args):
        for path in paths(argument):
            yield (place, *path)


def at(program: Program, path: Path) -> Program:
    """Return the subtree at the end of a path."""
    for place in path:
        program = program.args[place]
    return program


def put(program: Program, path: Path, part: Program) -> Program:
    """Return the program with the subtree at the end of a path replaced by `part`."""
    if not path:
        return part
    first, *rest = path
    arguments = list(program.args)
    arguments[first] = put(arguments[first], tuple(rest), part)
    return Program(program.name, tuple(arguments))
