"""Evaluates many programs on one network at once: what they have in common is computed once a chunk of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .primitives import PRIMITIVES, Primitive, ShapeError
from .programs import Program
from .statistics import Group, Statistics

ToScalar = Literal["mean", "l2"]
Aggregation = Literal["mean", "depth"]

#: Instances are taken so many at a time that one tensor of all of them has about this many numbers: it then stays in
#: the cache from one operation to the next.
CHUNK = 1 << 18


class Plan:
    """Programs with their common parts joined, in an order in which arguments come first.

    Args:
        programs: What to evaluate.
        to_scalar: What makes a number of a program's result on one instance: the `mean` of its elements, or their
            `l2` norm.
        aggregation: What makes a score of the numbers of all instances: their `mean`, or their mean weighted by
            `depth`, the n-th instance n times.
        primitives: Their functions by name.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        to_scalar: ToScalar = "mean",
        aggregation: Aggregation = "mean",
        primitives: Mapping[str, Primitive] = PRIMITIVES,
    ) -> None:
        self.reduce = PRIMITIVES["mean" if to_scalar == "mean" else "frobenius"].function
        self.aggregation = aggregation
        places: dict[Program, int] = {}
        steps: list[tuple[Program, tuple[int, ...]]] = []

        def visit(program: Program) -> int:
            if program not in places:
                arguments = tuple(visit(argument) for argument in program.args)
                places[program] = len(steps)
                steps.append((program, arguments))
            return places[program]

        self.roots = [visit(program) for program in programs]
        self.terminals = frozenset(program.name for program, _ in steps if not program.args)
        self.steps = [
            (program.name, primitives[program.name].function if program.args else None, arguments)
            for program, arguments in steps
        ]
        last = {place: place for place in range(len(steps))}
        for place, (_, _, arguments) in enumerate(self.steps):
            last |= dict.fromkeys(arguments, place)
        self.dying: list[list[int]] = [[] for _ in steps]
        for place in set(last) - set(self.roots):
            self.dying[last[place]].append(place)

    def scores(self, statistics: Statistics) -> NDArray[np.float64]:
        """Return the score of every program `(programs,)`.

        NaN where a program has no value on any instance; instances whose shapes do not fit are left out, as the
        released code does.
        """
        values, fits = self.values(statistics)
        weights = np.arange(1.0, statistics.instances + 1) if self.aggregation == "depth" else np.ones(values.shape[1])
        scores = np.full(len(values), np.nan)
        for place, (row, keep) in enumerate(zip(values, fits, strict=True)):
            if keep.any():  # one after the other, as the proxies of the same name add up
                with np.errstate(invalid="ignore", over="ignore"):
                    scores[place] = sum((row * weights)[keep].tolist()) / sum(weights[keep].tolist())
        return scores

    def values(self, statistics: Statistics) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the number of every program on every instance, and where shapes fit, `(programs, instances)`."""
        values = np.full((len(self.roots), statistics.instances), np.nan)
        fits = np.zeros(values.shape, dtype=bool)
        with torch.inference_mode():
            for group in statistics.groups:
                count = len(group.places)
                widest = max(tensor[0].numel() for tensor in group.tensors.values())
                step = max(1, CHUNK // widest)
                for start in range(0, count, step):
                    chunk = slice(start, start + step)
                    places = list(group.places[chunk])
                    for place, found in enumerate(self._chunk(group, chunk)):
                        if found is not None:
                            values[place, places] = found.numpy()
                            fits[place, places] = True
        return values, fits

    def _chunk(self, group: Group, chunk: slice) -> list[Tensor | None]:
        found: list[Tensor | None] = [None] * len(self.steps)
        for place, (name, function, arguments) in enumerate(self.steps):
            if function is None:
                tensor = group.tensors[name][chunk]
                found[place] = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
                continue
            values = [found[argument] for argument in arguments]
            if all(value is not None for value in values):
                with suppress(ShapeError):
                    found[place] = function(*values)
            for dead in self.dying[place]:
                found[dead] = None
        return [None if (value := found[root]) is None else self._number(value) for root in self.roots]

    def _number(self, value: Tensor) -> Tensor:
        return value if value.ndim == 1 else self.reduce(value)
