"""Evaluation of many programs at once: common subtrees are computed once per chunk of instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..language.primitives import PRIMITIVES, Kind, Primitive, ShapeError, share
from ..language.programs import Program
from .statistics import Group, Statistics

ToScalar = Literal["mean", "l2"]
Aggregation = Literal["mean", "depth"]

#: Approximate number of elements of one tensor of a chunk of instances. The tensor then stays in the CPU cache from one
#: operation to the next.
CHUNK = 1 << 18

#: A part of a chunk: position of the network, one of its groups, and the instances of that group.
_Part = tuple[int, Group, slice]


class Plan:
    """An evaluation order for programs: every distinct subtree once, arguments before the operation that reads them.

    Args:
        programs: Programs to evaluate.
        to_scalar: Reduction of a program's result on one instance to a number: the `mean` of its elements, or their
            `l2` norm.
        aggregation: Reduction of the numbers of all instances to a score: their `mean`, or their mean weighted by
            `depth`, where the n-th instance has weight n.
        primitives: Operations, by name.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        to_scalar: ToScalar = "mean",
        aggregation: Aggregation = "mean",
        primitives: Mapping[str, Primitive] = PRIMITIVES,
    ) -> None:
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
        self.ends = frozenset(self.roots)
        self.terminals = frozenset(program.name for program, _ in steps if not program.args)
        kinds: list[Kind] = []
        self.steps: list[tuple[str, Callable[..., Tensor] | None, tuple[int, ...]]] = []
        for program, arguments in steps:
            primitive = primitives[program.name] if program.args else None
            given = tuple(kinds[at] for at in arguments)
            kinds.append(primitive.kind(*given) if primitive else "tensor")
            function = primitive.function if primitive else None
            if primitive is PRIMITIVES["mean"] and given == ("mask",):
                function = share
            self.steps.append((program.name, function, arguments))
        whole = PRIMITIVES["mean" if to_scalar == "mean" else "frobenius"].function
        self.reduce = [share if to_scalar == "mean" and kind == "mask" else whole for kind in kinds]
        last = {place: place for place in range(len(steps))}
        for place, (_, _, arguments) in enumerate(self.steps):
            last |= dict.fromkeys(arguments, place)
        self.dying: list[list[int]] = [[] for _ in steps]
        for place in last:
            self.dying[last[place]].append(place)

    def scores(self, networks: Sequence[Statistics]) -> NDArray[np.float64]:
        """Return the score of every program on every network, `(programs, networks)`.

        A score is NaN if the program has no value on any instance. Instances whose shapes do not fit are left out, as
        in the released code. The score of a network does not depend on the other networks.
        """
        found = [self._scores(*table) for table in self.values(networks)]
        return np.stack(found, axis=1) if found else np.empty((len(self.roots), 0))

    def _scores(self, values: NDArray[np.float64], fits: NDArray[np.bool_]) -> NDArray[np.float64]:
        weights = np.arange(1.0, values.shape[1] + 1) if self.aggregation == "depth" else np.ones(values.shape[1])
        scores = np.full(len(values), np.nan)
        for place, (row, keep) in enumerate(zip(values, fits, strict=True)):
            if keep.any():  # summed in the order of the instances, as the proxies eznas_a and eznas_b do
                with np.errstate(invalid="ignore", over="ignore"):
                    scores[place] = sum((row * weights)[keep].tolist()) / sum(weights[keep].tolist())
        return scores

    def values(self, networks: Sequence[Statistics]) -> list[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Return, for each network, the number of every program on every instance and whether its shapes fit.

        Both arrays are `(programs, instances)`.
        """
        shapes = [(len(self.roots), network.instances) for network in networks]
        tables = [(np.full(shape, np.nan), np.zeros(shape, dtype=bool)) for shape in shapes]
        with torch.inference_mode():
            for parts in self._chunks(networks):
                tensors = {name: self._joined(name, parts) for name in self.terminals}
                found = [None if v is None else v.numpy() for v in self._chunk(tensors)]
                start = 0
                for network, group, chunk in parts:
                    values, fits = tables[network]
                    places = list(group.places[chunk])
                    for program, numbers in enumerate(found):
                        if numbers is not None:
                            values[program, places] = numbers[start : start + len(places)]
                            fits[program, places] = True
                    start += len(places)
        return tables

    def _chunks(self, networks: Sequence[Statistics]) -> Iterator[list[_Part]]:
        """Yield chunks of instances of equal shapes, taken from all networks."""
        alike: dict[tuple[Any, ...], list[tuple[int, Group]]] = {}
        for network, statistics in enumerate(networks):
            for group in statistics.groups:
                tensors = [group.tensors[name] for name in sorted(self.terminals)]
                alike.setdefault(tuple((t.shape[1:], t.dtype) for t in tensors), []).append((network, group))
        for groups in alike.values():
            widest = max(groups[0][1].tensors[name][0].numel() for name in self.terminals)
            room = step = max(1, CHUNK // widest)
            parts: list[_Part] = []
            for network, group in groups:
                start, count = 0, len(group.places)
                while start < count:
                    end = min(count, start + room)
                    parts.append((network, group, slice(start, end)))
                    room, start = room - (end - start), end
                    if not room:
                        yield parts
                        room, parts = step, []
            if parts:
                yield parts

    @staticmethod
    def _joined(name: str, parts: Sequence[_Part]) -> Tensor:
        tensors = [group.tensors[name][chunk] for _, group, chunk in parts]
        tensor = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        return tensor.float() if tensor.dtype == torch.bfloat16 else tensor

    def _chunk(self, tensors: Mapping[str, Tensor]) -> list[Tensor | None]:
        found: list[Tensor | None] = [None] * len(self.steps)
        numbers: list[Tensor | None] = [None] * len(self.steps)
        for place, (name, function, arguments) in enumerate(self.steps):
            if function is None:
                found[place] = tensors[name]
            else:
                values = [found[argument] for argument in arguments]
                if all(value is not None for value in values):
                    with suppress(ShapeError):
                        found[place] = function(*values)
            if place in self.ends and (value := found[place]) is not None:  # reduced now, while it is in the cache
                numbers[place] = value if value.ndim == 1 else self.reduce[place](value)
            for dead in self.dying[place]:
                found[dead] = None
        return [numbers[root] for root in self.roots]
