"""Sequential programs of a register machine, as in early EZNAS (Akhauri et al., appendix 8.2 and figure 8).

An instruction is four integers: the address to write, the operation (its number in table 5) and two addresses to read.
An operation of one argument ignores the second. There are 22 static addresses for the statistics, 80 for tensors and
20 for scalars. The last two kinds may be overwritten. The output is the value that is written last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from random import Random
from typing import NamedTuple

from ...errors import ProgramError
from .parse import parse
from .primitives import Kind, Primitive
from .programs import Program, Vocabulary, bottom_up, quoted

STATICS = range(22)
TENSORS = range(22, 102)
SCALARS = range(102, 122)

#: Maximum number of instructions in a text.
LONGEST = 1000


class Instruction(NamedTuple):
    """One instruction: an operation, the addresses of its arguments and the address of its result.

    Attributes:
        write: Address of the result, in `TENSORS` or `SCALARS`.
        op: Number of the operation in table 5.
        first: Address of the first argument.
        second: Address of the second argument; ignored if the operation has only one.
    """

    write: int
    op: int
    first: int
    second: int


class Sequential(tuple[Instruction, ...]):
    """A list of instructions. `str` gives their integers, such as `22 14 3 0; 102 17 22 0`."""

    __slots__ = ()

    def __str__(self) -> str:
        return "; ".join(" ".join(map(str, instruction)) for instruction in self)


@dataclass(frozen=True)
class Machines:
    """The representation of programs as lists of instructions: they are grown, varied, parsed and turned into trees.

    Every program is valid: it reads only addresses that have been written, and the kinds of arguments and results fit
    the addresses. Variation draws only changes that keep a program valid; the paper does not say how it treats others.
    Every draw comes from the generator that the caller passes. An operator returns a new program and changes none.

    Attributes:
        vocabulary: Terminals and operations. The terminals, at most 22 and no scalars, are the static addresses in
            their order. Only operations with a number in table 5 are used.

    Raises:
        ProgramError: The vocabulary has other terminals, or no operations.
    """

    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        kinds = self.vocabulary.terminals.values()
        if not 0 < len(kinds) <= len(STATICS) or "scalar" in kinds or not self.operations:
            raise ProgramError(
                f"sequential programs: expected operations of table 5 and 1 to {len(STATICS)} tensors as terminals, "
                f"got {len(self.operations)} and {len(kinds)} ({', '.join(sorted(set(kinds)))})"
            )

    @cached_property
    def operations(self) -> Mapping[int, Primitive]:
        """Operations, by their number in table 5."""
        return {p.op: p for p in self.vocabulary.primitives.values() if p.op is not None}

    @cached_property
    def terminals(self) -> Sequence[str]:
        """Names of the terminals, in the order of their static addresses."""
        return tuple(self.vocabulary.terminals)

    def grow(self, rng: Random, low: int, high: int) -> Sequential:
        """Draw a program of `low` to `high` instructions, each uniformly among the valid ones."""
        instructions: list[Instruction] = []
        ready = set(range(len(self.terminals)))
        for _ in range(rng.randint(low, high)):
            instructions.append(self._drawn(rng, ready))
            ready.add(instructions[-1].write)
        return Sequential(instructions)

    def cross(self, rng: Random, first: Sequential, second: Sequential) -> Sequential:
        """Interleave the first halves of two programs, one instruction of each in turn (`Mate`), without a draw."""
        halves = [program[: (len(program) + 1) // 2] for program in (first, second)]
        return Sequential(i for pair in zip_longest(*halves) for i in pair if i is not None)

    def mutate(self, rng: Random, sequential: Sequential) -> Sequential:
        """Vary a program with one of the four operators below."""
        ways = (self.insert_op, self.remove_op, self.mutate_op, self.mutate_op_arg)
        return rng.choice(ways)(rng, sequential)

    def insert_op(self, rng: Random, sequential: Sequential) -> Sequential:
        """Insert an instruction at a random position (`InsertOP`)."""
        point = rng.randint(0, len(sequential))
        before, after = sequential[:point], sequential[point:]
        ready = set(range(len(self.terminals))) | {instruction.write for instruction in before}
        return Sequential((*before, self._drawn(rng, ready), *after))

    def remove_op(self, rng: Random, sequential: Sequential) -> Sequential:
        """Remove an instruction that no other needs (`RemoveOP`), unless it is the only instruction."""
        for place in rng.sample(range(len(sequential)), len(sequential)):
            shorter = _with(sequential, place)
            if shorter and not any(self._refusals(shorter)):
                return shorter
        return sequential

    def mutate_op(self, rng: Random, sequential: Sequential) -> Sequential:
        """Change the operation of an instruction and keep its addresses (`MutateOP`).

        The program itself is returned if no instruction can have another operation.
        """
        return self._changed(rng, sequential, lambda i: (i._replace(op=op) for op in self.operations if op != i.op))

    def mutate_op_arg(self, rng: Random, sequential: Sequential) -> Sequential:
        """Change one address that an instruction reads (`MutateOpArg`), to one of the same sort, tensor or scalar.

        The program itself is returned if no other address fits. A static address may replace that of a computed tensor
        and the reverse; the paper does not say whether it may.
        """

        def others(instruction: Instruction) -> Iterator[Instruction]:
            for field in ("first", "second")[: self.operations[instruction.op].arity]:
                old = getattr(instruction, field)
                for new in range(SCALARS.stop):
                    if new != old and (new in SCALARS) == (old in SCALARS):
                        yield instruction._replace(**{field: new})

        return self._changed(rng, sequential, others)

    def decode(self, sequential: Sequential) -> Program:
        """Return the tree of the output; instructions that do not contribute to it disappear.

        The tree may be higher than the vocabulary's limit, and its size may double with every instruction.
        """
        memory = {place: Program(name) for place, name in enumerate(self.terminals)}
        for instruction in sequential:
            args = tuple(memory[place] for place in self._reads(instruction))
            memory[instruction.write] = Program(self.operations[instruction.op].name, args)
        return memory[sequential[-1].write]

    def express(self, sequential: Sequential) -> Program:
        """Return the tree in canonical form, or unchanged if it is higher than the vocabulary's limit."""
        program = self.decode(sequential)
        return self.vocabulary.canonical(program) if program.height <= self.vocabulary.height_limit else program

    def parse(self, text: str) -> Sequential:
        """Return the sequential program of a text of integers, or one that computes the tree of a program's text.

        Raises:
            ProgramError: The text describes no program, or one that is not valid.
        """
        if re.search(r"[^\s\d;-]", text) or not text.strip():
            return self.encode(parse(self.vocabulary, text))
        lines = text.split(";", LONGEST)
        if len(lines) > LONGEST:
            raise ProgramError(f"sequential program {quoted(text)}: expected at most {LONGEST} instructions")
        found = []
        for line in lines:
            words = line.split()
            if len(words) != len(Instruction._fields) or not all(re.fullmatch(r"[0-9]{1,3}", word) for word in words):
                raise ProgramError(f"instruction {quoted(line.strip())}: expected four integers such as 22 14 3 0")
            found.append(Instruction(*map(int, words)))
        sequential = Sequential(found)
        for instruction, reason in zip(found, self._refusals(sequential), strict=True):
            if reason:
                raise ProgramError(f"instruction '{' '.join(map(str, instruction))}': {reason}")
        return sequential

    def encode(self, program: Program) -> Sequential:
        """Return a sequential program that computes a tree, every distinct subtree once.

        Raises:
            ProgramError: The program is a terminal, or has an operation without a number in table 5, or needs more
                addresses than there are.
        """
        places = {Program(name): place for place, name in enumerate(self.terminals)}
        free: dict[str, Iterator[int]] = {"tensor": iter(TENSORS), "scalar": iter(SCALARS)}
        numbers = {primitive.name: op for op, primitive in self.operations.items()}
        found: list[Instruction] = []
        for node in bottom_up(program):
            if not node.args:
                continue
            kind = self.vocabulary.kind(node)
            write = next(free["scalar" if kind == "scalar" else "tensor"], None)
            if node.name not in numbers or write is None:
                raise ProgramError(
                    f"program {quoted(str(program))}: expected operations of table 5, at most {len(TENSORS)} that give "
                    f"a tensor and {len(SCALARS)} that give a scalar"
                )
            reads = [places[argument] for argument in node.args]
            found.append(Instruction(write, numbers[node.name], reads[0], reads[-1]))
            places[node] = write
        if not found:
            raise ProgramError(
                f"program {quoted(str(program))}: expected an operation: a terminal needs no instruction"
            )
        return Sequential(found)

    def _reads(self, instruction: Instruction) -> tuple[int, ...]:
        return instruction[2 : 2 + self.operations[instruction.op].arity]

    def _drawn(self, rng: Random, ready: set[int]) -> Instruction:
        """Draw an instruction that reads from the addresses in `ready`."""
        operations, places = list(self.operations), sorted(ready)
        while True:
            instruction = Instruction(TENSORS.start, rng.choice(operations), rng.choice(places), rng.choice(places))
            try:
                kind = self._kind(instruction)
            except ProgramError:
                continue
            return instruction._replace(write=rng.choice(SCALARS if kind == "scalar" else TENSORS))

    def _changed(
        self, rng: Random, sequential: Sequential, others: Callable[[Instruction], Iterator[Instruction]]
    ) -> Sequential:
        """Replace a random instruction, among those for which a valid replacement exists."""
        for place in rng.sample(range(len(sequential)), len(sequential)):
            instruction = sequential[place]
            ready = set(range(len(self.terminals))) | {earlier.write for earlier in sequential[:place]}
            fitting = [other for other in others(instruction) if not self._refused(other, ready)]
            if fitting:
                return _with(sequential, place, rng.choice(fitting))
        return sequential

    def _kind(self, instruction: Instruction) -> Kind:
        kinds = list(self.vocabulary.terminals.values())
        reads = [kinds[r] if r in STATICS else "tensor" if r in TENSORS else "scalar" for r in self._reads(instruction)]
        return self.operations[instruction.op].kind(*reads)

    def _refusals(self, sequential: Sequential) -> Iterator[str]:
        """Yield, for every instruction, the reason why it is not valid, or an empty text."""
        ready = set(range(len(self.terminals)))
        for instruction in sequential:
            yield self._refused(instruction, ready)
            ready.add(instruction.write)

    def _refused(self, instruction: Instruction, ready: set[int]) -> str:
        write, op, *places = instruction
        if op not in self.operations:
            return f"expected the number of an operation in table 5, got {op}"
        if not TENSORS.start <= write < SCALARS.stop or not all(0 <= place < SCALARS.stop for place in places):
            return f"expected to read from 0 to {SCALARS.stop - 1} and to write from {TENSORS.start}"
        for place in self._reads(instruction):
            if place not in ready:
                return f"nothing was written to {place} before"
        name = self.operations[op].name
        try:
            kind = self._kind(instruction)
        except ProgramError as error:
            return f"{name} {error}"
        if (kind == "scalar") != (write in SCALARS):
            return f"{name} gives a {kind}, which does not go to {write}"
        return ""


def _with(sequential: Sequential, place: int, *instructions: Instruction) -> Sequential:
    """Return the program with one instruction replaced by others, or removed if there are no others."""
    before, after = sequential[:place], sequential[place + 1 :]
    return Sequential((*before, *instructions, *after))
