from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zcbench.errors import ProgramError
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.primitives import PRIMITIVES
from zcbench.evolution.language.programs import Vocabulary
from zcbench.evolution.language.register_machines import SCALARS, STATICS, TENSORS, Instruction, Machines, Sequential

NAMES = [f"T{i}" for i in range(22)]
V = Vocabulary(dict.fromkeys(NAMES, "tensor"), PRIMITIVES)
M = Machines(V)
SEEDS = given(seed=st.integers(0, 2**32))
VARIATIONS = pytest.mark.parametrize("vary", [M.mutate, M.insert_op, M.remove_op, M.mutate_op, M.mutate_op_arg])

# EZNAS-A on the ninth static address, with two instructions in between whose results are not read.
EZNAS_A = "22 14 8 0; 23 0 22 22; 22 19 22 5; 24 28 22 0; 102 17 23 0; 103 17 24 24"


def state(sequential: Sequential) -> list[Instruction]:
    return list(sequential)


def differing(a: Sequential, b: Sequential) -> list[tuple[Instruction, Instruction]]:
    return [(x, y) for x, y in zip(a, b, strict=True) if x != y]


def test_the_machine_has_the_places_of_the_paper() -> None:
    assert (len(STATICS), len(TENSORS), len(SCALARS)) == (22, 80, 20)
    assert [*STATICS, *TENSORS, *SCALARS] == list(range(122))
    assert {op: p.name for op, p in M.operations.items()}[3] == "matmul"


def test_decoding_keeps_what_reaches_the_output() -> None:
    sequential = M.parse(EZNAS_A)
    assert len(sequential) == 6
    assert str(M.decode(sequential)) == "frobenius(sigmoid(logdet(sign(T8))))"
    # A value that is overwritten is not read later.
    assert str(M.decode(M.parse("22 9 0 0; 23 9 22 0; 22 11 1 0; 24 0 22 23"))) == "add(exp(T1), abs(abs(T0)))"


def test_an_expression_is_decoded_with_what_it_shares() -> None:
    sequential = M.parse("; ".join(["22 0 0 0", *["22 0 22 22"] * 99]))
    program = M.decode(sequential)
    assert (program.height, program.size) == (100, 2**101 - 1)
    assert M.express(sequential) == program


def test_an_expression_comes_in_its_canonical_form() -> None:
    assert str(M.express(M.parse("22 9 3 0; 23 9 22 0; 24 2 23 22"))) == "square(T3)"


@pytest.mark.parametrize(
    "text", ["frobenius(sigmoid(logdet(sign(T8))))", "gt(add(T0, T1), mul(add(T0, T1), mean(T3)))"]
)
def test_an_expression_becomes_a_program_that_computes_it(text: str) -> None:
    sequential = M.parse(text)
    assert str(M.decode(sequential)) == text
    assert len(sequential) == len({node for node in parse(V, text).nodes() if node.args})
    assert M.parse(str(sequential)) == sequential


@settings(max_examples=200, deadline=None)
@SEEDS
def test_what_is_drawn_is_valid_and_comes_back_from_its_text(seed: int) -> None:
    rng = random.Random(seed)
    sequential = M.grow(rng, 1, 30)
    assert 1 <= len(sequential) <= 30
    assert M.parse(str(sequential)) == sequential
    program = M.decode(sequential)
    kind = V.kind(program)
    last = sequential[-1]
    assert (last.write in SCALARS) == (kind == "scalar")
    assert program.name == M.operations[last.op].name
    if program.size <= 200:
        assert M.decode(M.parse(str(program))) == program if program.height <= 10 else True


@settings(max_examples=100, deadline=None)
@SEEDS
def test_instructions_that_are_not_useful_can_be_left_out(seed: int) -> None:
    rng = random.Random(seed)
    sequential = M.grow(rng, 5, 15)
    needed: list[Instruction] = []
    wanted = {sequential[-1].write}
    for instruction in reversed(sequential):
        if instruction.write in wanted:
            arity = M.operations[instruction.op].arity
            wanted = wanted - {instruction.write} | set(instruction[2 : 2 + arity])
            needed.insert(0, instruction)
    assert M.decode(Sequential(needed)) == M.decode(sequential)


@VARIATIONS
@settings(max_examples=100, deadline=None)
@SEEDS
def test_a_variation_gives_another_valid_program_and_leaves_its_parent(
    vary: Callable[[random.Random, Sequential], Sequential], seed: int
) -> None:
    rng = random.Random(seed)
    parent = M.grow(rng, 2, 12)
    before = str(parent)
    draws = rng.getstate()
    child = vary(rng, parent)
    assert str(parent) == before
    assert child != parent
    assert M.parse(str(child)) == child
    V.kind(M.decode(child))
    rng.setstate(draws)
    assert vary(rng, parent) == child


def test_every_operator_changes_what_the_paper_says() -> None:
    kinds = Counter[str]()
    for seed in range(300):
        rng = random.Random(seed)
        parent = M.grow(rng, 2, 30)
        longer, shorter = M.insert_op(rng, parent), M.remove_op(rng, parent)
        assert len(longer) == len(parent) + 1
        assert any(state(longer)[:i] + state(longer)[i + 1 :] == state(parent) for i in range(len(longer)))
        assert len(shorter) == len(parent) - 1
        assert any(state(parent)[:i] + state(parent)[i + 1 :] == state(shorter) for i in range(len(parent)))
        ((a, b),) = differing(parent, M.mutate_op(rng, parent))
        assert a._replace(op=b.op) == b
        ((a, b),) = differing(parent, M.mutate_op_arg(rng, parent))
        assert (a.write, a.op) == (b.write, b.op)
        ((old, new),) = [(x, y) for x, y in zip(a[2:], b[2:], strict=True) if x != y]
        assert (old in SCALARS) == (new in SCALARS)
        kinds[f"{old in STATICS} {new in STATICS} {old in SCALARS}"] += 1
    assert len(kinds) == 5  # exchanges between static and computed tensors, and between scalars


def test_mating_interleaves_first_halves() -> None:
    a, b = M.parse("22 9 0 0; 23 9 22 0; 24 9 23 0"), M.parse("25 11 1 0; 102 17 25 0")
    assert str(M.cross(random.Random(0), a, b)) == "22 9 0 0; 25 11 1 0; 23 9 22 0"
    assert str(M.cross(random.Random(0), b, a)) == "25 11 1 0; 22 9 0 0; 23 9 22 0"


@settings(max_examples=100, deadline=None)
@SEEDS
def test_a_child_of_two_is_valid(seed: int) -> None:
    rng = random.Random(seed)
    a, b = M.grow(rng, 1, 12), M.grow(rng, 1, 12)
    child = M.cross(rng, a, b)
    assert len(child) == (len(a) + 1) // 2 + (len(b) + 1) // 2
    assert M.parse(str(child)) == child


def test_a_lone_instruction_is_kept_and_what_cannot_change_is_returned() -> None:
    lone = M.parse("22 9 3 0")
    assert M.remove_op(random.Random(0), lone) == lone
    only = Machines(Vocabulary({"T3": "tensor"}, {"abs": PRIMITIVES["abs"]}))
    assert only.mutate_op(random.Random(0), only.parse("22 9 0 0")) == only.parse("22 9 0 0")
    assert only.mutate_op_arg(random.Random(0), only.parse("22 9 0 0")) == only.parse("22 9 0 0")


BAD = {
    "": "expected a text such as abs(T3)",
    "22 9 3": "expected four integers",
    "22 9 3 0;": "expected four integers",
    "22 9 3 0 0": "expected four integers",
    "22 9 -3 0": "expected four integers",
    "22 9 1234 0": "expected four integers",
    "22 9 3 122": "expected to read from 0 to 121",
    "21 9 3 0": "to write from 22",
    "122 9 3 0": "to write from 22",
    "22 34 3 0": "expected the number of an operation in table 5, got 34",
    "22 9 23 0": "nothing was written to 23 before",
    "22 9 3 0; 23 0 22 24": "instruction '23 0 22 24': nothing was written to 24 before",
    "102 9 3 0": "abs gives a tensor, which does not go to 102",
    "22 17 3 0": "frobenius gives a scalar, which does not go to 22",
    "102 17 3 0; 103 17 102 0": "frobenius takes tensors and masks, not a scalar",
    "22 9 3 0\x00": "unknown terminal or operation",
    "T3": "a terminal needs no instruction",
    "abs(T99)": "unknown terminal or operation 'T99'",
    "; ".join(["22 9 3 0"] * 1001): "expected at most 1000 instructions",
    "9" * 100_000: "expected four integers",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_bad_text_is_named_on_one_line(text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        M.parse(text)
    assert BAD[text] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_an_expression_that_does_not_fit_the_places_is_refused() -> None:
    means = [f"mean(T{i})" for i in range(21)]
    text = means[0]
    for mean in means[1:]:
        text = f"add({text}, {mean})"
    high = Machines(Vocabulary(V.terminals, PRIMITIVES, 30))
    with pytest.raises(ProgramError, match="20 that give a scalar"):
        high.parse(text)


@pytest.mark.parametrize(
    "vocabulary",
    [
        Vocabulary({}, PRIMITIVES),
        Vocabulary(dict.fromkeys([f"T{i}" for i in range(23)], "tensor"), PRIMITIVES),
        Vocabulary({"T3": "tensor", "2": "scalar"}, PRIMITIVES),
        Vocabulary({"T3": "tensor"}, {}),
    ],
)
def test_other_vocabularies_are_refused(vocabulary: Vocabulary) -> None:
    with pytest.raises(ProgramError, match=r"expected operations of table 5 and 1 to 22 tensors"):
        Machines(vocabulary)
