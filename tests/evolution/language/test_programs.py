from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import math
import os
import pickle
import random
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from zcbench.errors import ProgramError
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.primitives import PRIMITIVES, Kind, Primitive, ShapeError
from zcbench.evolution.language.programs import Program, Vocabulary

TERMINALS: dict[str, Kind] = {
    **dict.fromkeys(("T1_D", "T1G_D", "T2_N", "T3", "T4_P", "FLAT"), "tensor"),
    **{"MASK": "mask", "0.5": "scalar", "-1": "scalar", "2": "scalar"},
}
V = Vocabulary(TERMINALS, PRIMITIVES)
EZNAS_A = "frobenius(sigmoid(logdet(sign(T1G_D))))"
EZNAS_B = "inv(add(frobenius(T4_P), exp(frobenius(log(sigmoid(log(sigmoid(T4_P))))))))"
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -3.5, 1e-40, 1e30, -3e38, math.inf, -math.inf, math.nan]


def evaluate(program: Program, values: dict[str, Tensor]) -> Tensor | None:
    """Evaluate a program; return None if shapes do not fit."""
    if not program.args:
        return values[program.name]
    args = [evaluate(argument, values) for argument in program.args]
    try:
        return None if any(a is None for a in args) else PRIMITIVES[program.name].function(*args)
    except ShapeError:
        return None


def same(a: Tensor | None, b: Tensor | None) -> bool:
    """Return whether values are equal to the last bit and the sign of zero; NaN equals NaN."""
    if a is None or b is None:
        return a is b
    x, y = a.nan_to_num(7.0, math.inf, -math.inf), b.nan_to_num(7.0, math.inf, -math.inf)
    return (
        (a.dtype, a.shape) == (b.dtype, b.shape)
        and torch.equal(a.isnan(), b.isnan())
        and torch.equal(x, y)
        and torch.equal(x.signbit(), y.signbit())
    )


@functools.cache
def values(seed: int) -> dict[str, Tensor]:
    """Return two instances of every terminal; up to half of the numbers are special values."""
    draw = torch.Generator().manual_seed(seed)

    def tensor(*shape: int) -> Tensor:
        numbers = torch.randn(2, *shape, generator=draw)
        special = torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), numbers.shape, generator=draw)]
        odd = torch.rand(numbers.shape, generator=draw) < 0.5 * (seed % 3)
        return torch.where(odd, special, numbers)

    found = {name: tensor(3, 2, 4, 4) for name in ("T1_D", "T1G_D", "T2_N", "T4_P")}
    found |= {"T3": tensor(4, 4), "FLAT": tensor(5), "MASK": (tensor(3, 2, 4, 4) > 0).float()}
    return found | {name: torch.full((2,), float(name), dtype=torch.float64) for name in ("0.5", "-1", "2")}


def grown(rng: random.Random, height: int) -> Program:
    """Grow a random program that is valid."""
    while True:
        if height == 0 or rng.random() < 0.1:
            program = Program(rng.choice(list(TERMINALS)))
        else:
            primitive = rng.choice(list(PRIMITIVES.values()))
            args = [grown(rng, height - 1) for _ in range(primitive.arity)]
            if rng.random() < 0.3:
                args[-1] = args[0]
            program = Program(primitive.name, tuple(args))
        try:
            V.kind(program)
        except ProgramError:
            continue
        return program


# ---- trees


def test_a_program_counts_its_nodes_and_its_height_and_writes_itself() -> None:
    program = parse(V, EZNAS_B)
    assert str(program) == EZNAS_B
    assert (program.size, program.height) == (11, 8)
    assert [str(node) for node in parse(V, "gt(abs(T3), FLAT)").nodes()] == [
        "gt(abs(T3), FLAT)",
        "abs(T3)",
        "T3",
        "FLAT",
    ]
    terminal = Program("T3")
    assert (terminal.size, terminal.height, str(terminal)) == (1, 0, "T3")


def test_programs_are_equal_by_structure_and_cannot_be_changed() -> None:
    a, b = parse(V, EZNAS_A), parse(V, f" {EZNAS_A.replace('(', ' ( ')} ")
    assert a == b
    assert hash(a) == hash(b)
    assert a is not b
    assert a != parse(V, "frobenius(T1G_D)")
    assert a != str(a)
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.name = "mean"  # type: ignore[misc]
    assert {a: 1}[copy.deepcopy(b)] == 1


def test_a_program_that_comes_from_another_process_is_found_in_a_set() -> None:
    # Hashes of texts differ in another process.
    script = (
        "import pickle, sys; from zcbench.evolution.language.programs import Program; "
        "sys.stdout.buffer.write(pickle.dumps(Program('abs', (Program('T3'),))))"
    )
    sent = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "77"},
    ).stdout
    assert pickle.loads(sent) in {Program("abs", (Program("T3"),))}


def test_deep_and_shared_trees_are_handled() -> None:
    deep = Program("T3")
    for _ in range(5000):
        deep = Program("exp", (deep,))
    assert deep.height == 5000
    assert str(deep).count("exp(") == 5000
    assert V.kind(deep) == "tensor"
    assert V.canonical(deep) == deep
    wide = Program("T3")
    for _ in range(200):
        wide = Program("matmul", (wide, wide))
    assert wide.size == 2**201 - 1
    assert V.kind(wide) == "tensor"


# ---- text


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_program_comes_back_from_its_text(seed: int) -> None:
    program = grown(random.Random(seed), 3)
    assert parse(V, str(program)) == program


@pytest.mark.parametrize(
    ("terminals", "message"),
    [
        ({"a b": "tensor"}, "expected ASCII without spaces"),
        ({"a(": "tensor"}, "expected ASCII without spaces"),
        ({"": "tensor"}, "expected ASCII without spaces"),
        ({"ß": "tensor"}, "expected ASCII without spaces"),
        ({"abs": "tensor"}, "expected a terminal or an operation, is both"),
        ({"T3": "matrix"}, "expected one of tensor, mask, scalar, got 'matrix'"),
    ],
)
def test_a_vocabulary_that_cannot_be_written_is_refused(terminals: dict[str, Kind], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        Vocabulary(terminals, PRIMITIVES)


# ---- kinds


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *[("T3", "tensor"), ("MASK", "mask"), ("2", "scalar"), (EZNAS_A, "scalar"), (EZNAS_B, "scalar")],
        *[("gt(T3, 2)", "mask"), ("gt(2, 2)", "scalar"), ("abs(MASK)", "tensor"), ("mul(2, T3)", "tensor")],
    ],
)
def test_kinds(text: str, kind: Kind) -> None:
    assert V.kind(parse(V, text)) == kind


def test_a_tree_that_is_no_program_has_no_kind() -> None:
    t = Program("T3")
    bad = {
        "unknown terminal or operation": Program("nothing", (t,)),
        "takes 1 argument, got 2": Program("abs", (t, t)),
        "takes 1 argument, got 0": Program("abs"),
        "takes no arguments": Program("T3", (t,)),
        "not a scalar": Program("det", (Program("mean", (t,)),)),
    }
    for message, program in bad.items():
        with pytest.raises(ProgramError, match=message):
            V.kind(program)
        with pytest.raises(ProgramError, match=message):
            V.kind(Program("exp", (program,)))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_value_is_of_the_kind(seed: int) -> None:
    program = grown(random.Random(seed), 2)
    value = evaluate(program, values(seed))
    if value is not None:
        assert (value.ndim == 1) == (V.kind(program) == "scalar")


# ---- canonical form


FORMS = {
    "add(T3, FLAT)": "add(FLAT, T3)",
    "sub(T3, FLAT)": "sub(T3, FLAT)",
    "lt(FLAT, T3)": "gt(T3, FLAT)",
    "heaviside(T3)": "gt0(T3)",
    "abs(abs(T3))": "abs(T3)",
    "abs(square(T3))": "square(T3)",
    "relu(sigmoid(T3))": "sigmoid(T3)",
    "relu(relu(abs(T3)))": "abs(T3)",
    "sign(sign(T3))": "sign(T3)",
    "sign(heaviside(T3))": "gt0(T3)",
    "abs(frobenius(T3))": "frobenius(T3)",
    "square(abs(T3))": "square(T3)",
    "square(inv(abs(T3)))": "square(inv(T3))",
    "mul(T3, T3)": "square(T3)",
    "mul(add(T3, FLAT), add(FLAT, T3))": "square(add(FLAT, T3))",
    "mean(abs(T3))": "l1(T3)",
    "l1(square(T3))": "mean(square(T3))",
    "frobenius(abs(T3))": "frobenius(T3)",
    "log(abs(T3))": "abslog(T3)",
    "abslog(exp(T3))": "log(exp(T3))",
    "log(relu(T3))": "log(T3)",
    "gt(T3, zeros_like(log(T3)))": "gt0(T3)",
    "gt(zeros_like(T3), exp(T3))": "zeros_like(T3)",
    "gt(T3, T3)": "zeros_like(T3)",
    "mul(ones_like(exp(T3)), abs(T3))": "abs(T3)",
    "sub(T3, lt0(square(T3)))": "T3",
    "numel(softmax(exp(T3)))": "numel(T3)",
    "zeros_like(normalize(gt0(T3)))": "zeros_like(T3)",
    "hamming(sign(T1_D), relu(T1G_D))": "hamming(T1G_D, T1_D)",
    "abs(sub(T3, FLAT))": "abs(sub(FLAT, T3))",
    "square(abs(frobenius(T2_N)))": "square(frobenius(T2_N))",
    # These programs look alike, but are not equal.
    "normalize(normalize(T3))": "normalize(normalize(T3))",
    "sub(T3, T3)": "sub(T3, T3)",
    "add(T3, zeros_like(T3))": "add(T3, zeros_like(T3))",
    "mul(T3, ones_like(FLAT))": "mul(T3, ones_like(FLAT))",
    "inv(inv(T3))": "inv(inv(T3))",
    "log(exp(T3))": "log(exp(T3))",
    "eq(T3, T3)": "eq(T3, T3)",
    "kl_div(T3, FLAT)": "kl_div(T3, FLAT)",
    "matmul(T3, FLAT)": "matmul(T3, FLAT)",
    "numel(logdet(T3))": "numel(logdet(T3))",
    "gt0(exp(T3))": "gt0(exp(T3))",
}


@pytest.mark.parametrize("text", FORMS)
def test_programs_that_are_equal_have_one_form(text: str) -> None:
    assert str(V.canonical(parse(V, text))) == FORMS[text]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_pair_of_operations_keeps_its_value(name: str) -> None:
    outer = PRIMITIVES[name]
    for inner in PRIMITIVES.values():
        # The determinants are float64.
        choices = (Program("T1_D"), Program("T2_N"), Program("2"), Program("det", (Program("T4_P"),)))
        for leaves in itertools.product(choices, repeat=inner.arity):
            within = Program(inner.name, leaves)
            for args in {(within, leaves[0]), (leaves[-1], within), (within, within)}:
                program = Program(outer.name, args[-outer.arity :])
                with contextlib.suppress(ProgramError):
                    V.kind(program)
                    check(program, 1)


def check(program: Program, seed: int) -> None:
    form = V.canonical(program)
    assert form.size <= program.size
    assert form.height <= program.height
    assert V.canonical(form) == form
    V.kind(form)
    if form != program:
        terminals = values(seed)
        assert same(evaluate(program, terminals), evaluate(form, terminals)), f"{program} and {form}"


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_form_of_any_program_keeps_its_value(seed: int) -> None:
    check(grown(random.Random(seed), 4), seed)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_order_of_commutative_arguments_is_without_effect(seed: int) -> None:
    rng = random.Random(seed)

    def shuffled(p: Program) -> Program:
        args = [shuffled(argument) for argument in p.args]
        if p.args and PRIMITIVES[p.name].commutative and rng.random() < 0.5:
            args.reverse()
        return Program(p.name, tuple(args))

    program = grown(rng, 4)
    assert V.canonical(shuffled(program)) == V.canonical(program)


def test_rules_stay_within_the_vocabulary() -> None:
    few = Vocabulary(TERMINALS, {name: PRIMITIVES[name] for name in ("mul", "abs", "heaviside", "log", "l1")})
    for text in ("mul(T3, T3)", "heaviside(T3)", "log(abs(T3))"):
        assert str(few.canonical(parse(few, text))) == text
    assert str(few.canonical(parse(few, "l1(abs(T3))"))) == "l1(T3)"


def test_rules_are_not_for_other_operations_of_the_same_name() -> None:
    def kind(*kinds: Kind) -> Kind:
        return "tensor"

    other = Primitive("abs", torch.sin, 1, kind)
    mean3 = Primitive("mean3", lambda a, b, c: a + b + c, 3, kind)
    vocabulary = Vocabulary(TERMINALS, {"abs": other, "mul": PRIMITIVES["mul"], "mean3": mean3})
    text = "mul(mean3(T3, FLAT, T3), abs(abs(T3)))"
    assert str(vocabulary.canonical(parse(vocabulary, text))) == "mul(abs(abs(T3)), mean3(T3, FLAT, T3))"


def test_a_vocabulary_survives_pickling_with_its_rules() -> None:
    again = pickle.loads(pickle.dumps(V))
    assert str(again.canonical(parse(again, "abs(abs(T3))"))) == "abs(T3)"
