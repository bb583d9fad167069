"""Tests of the evaluation of many programs, compared with one program on one instance at a time."""

import dataclasses
import gc
import math
import random
import weakref

import numpy as np
import pytest
import torch
from zcbench.evolution.data import evaluation as module
from zcbench.evolution.data.evaluation import Plan
from zcbench.evolution.data.statistics import Group, Statistics
from zcbench.evolution.language.parse import parse
from zcbench.evolution.language.primitives import PRIMITIVES, ShapeError
from zcbench.evolution.language.programs import Program, Vocabulary
from zcbench.evolution.language.variation import Trees

TERMINALS = ("T1_D", "T2_D", "T3")
WORDS = Vocabulary(dict.fromkeys(TERMINALS, "tensor"), PRIMITIVES)
#: Positions of a network's instances, by the size of their square activations; groups alternate.
PLACES = {4: (0, 2, 5), 3: (1, 4), 6: (3,)}


def statistics(seed=0, dtype=torch.float32):
    draw = torch.Generator().manual_seed(seed)
    groups = []
    for size, places in PLACES.items():
        shapes = {"T1_D": (2, 3, size, size), "T2_D": (2, 3, size, size), "T3": (3, 3, 3, 3)}
        tensors = {name: torch.randn(len(places), *shape, generator=draw).to(dtype) for name, shape in shapes.items()}
        groups.append(Group(tensors, places))
    return Statistics(6, tuple(groups))


def alone(program, tensors):
    """Evaluate a program on one instance without sharing; return None if shapes do not fit."""
    if not program.args:
        return tensors[program.name][None].float()
    arguments = [alone(argument, tensors) for argument in program.args]
    if any(argument is None for argument in arguments):
        return None
    try:
        return PRIMITIVES[program.name].function(*arguments)
    except ShapeError:
        return None


def expected(program, given, to_scalar="mean", aggregation="mean"):
    numbers = [math.nan] * given.instances
    for group in given.groups:
        for row, place in enumerate(group.places):
            value = alone(program, {name: tensor[row] for name, tensor in group.tensors.items()})
            if value is not None and value.ndim > 1:
                flat = value.double().flatten()
                value = (flat.mean() if to_scalar == "mean" else flat.square().sum().sqrt())[None]
            numbers[place] = None if value is None else float(value)
    weights = [place + 1 if aggregation == "depth" else 1 for place in range(given.instances)]
    kept = [(n, w) for n, w in zip(numbers, weights, strict=True) if n is not None]
    values, shares = np.array(kept).reshape(-1, 2).T
    return np.average(values, weights=shares) if kept else math.nan


def programs(count=60, seed=0):
    trees, draw = Trees(WORDS), random.Random(seed)
    return [trees.grow(draw, 1, 5) for _ in range(count)]


@pytest.mark.parametrize("aggregation", ["mean", "depth"])
@pytest.mark.parametrize("to_scalar", ["mean", "l2"])
def test_scores_are_those_of_one_program_and_one_instance_at_a_time(to_scalar, aggregation):
    given, many = statistics(), programs()
    got = Plan(many, to_scalar, aggregation).scores([given])[:, 0]
    wanted = [expected(program, given, to_scalar, aggregation) for program in many]
    np.testing.assert_allclose(got, wanted, rtol=2e-5)
    assert np.isfinite(got).sum() > 20
    assert got.dtype == np.float64


def test_what_is_evaluated_together_changes_no_digit(monkeypatch):
    given, many = statistics(), programs()
    together = Plan(many).scores([given])[:, 0]
    np.testing.assert_array_equal(together, [Plan([program]).scores([given])[0, 0] for program in many])
    np.testing.assert_array_equal(together[::-1], Plan(many[::-1]).scores([given])[:, 0])
    for chunk in (1, 100, 10**9):
        monkeypatch.setattr(module, "CHUNK", chunk)
        np.testing.assert_array_equal(Plan(many).scores([given])[:, 0], together)


@pytest.mark.parametrize("chunk", [1, 100, 1000, 10**9])
def test_networks_evaluated_together_change_no_digit_of_each_other(monkeypatch, chunk):
    # The last network lacks a shape of the others, and the first group of one network has another dtype.
    many, networks = programs(), [statistics(seed) for seed in range(3)]
    lone = dataclasses.replace(statistics(4).groups[2], places=(1,))
    networks[1] = Statistics(6, (statistics(1, torch.bfloat16).groups[0], *networks[1].groups[1:]))
    networks.append(Statistics(3, (dataclasses.replace(statistics(3).groups[1], places=(0, 2)), lone)))
    by_itself = [Plan(many).scores([network])[:, 0] for network in networks]
    monkeypatch.setattr(module, "CHUNK", chunk)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 2]):
        together = Plan(many).scores([networks[n] for n in order])
        np.testing.assert_array_equal(together, np.stack([by_itself[n] for n in order], axis=1))


def with_relu(function):
    return dict(PRIMITIVES) | {"relu": dataclasses.replace(PRIMITIVES["relu"], function=function)}


def counting():
    """Return a list, and primitives whose `relu` appends its number of instances to the list."""
    calls = []

    def counted(x):
        calls.append(len(x))
        return torch.relu(x)

    return calls, with_relu(counted)


def test_equal_shapes_of_all_networks_are_evaluated_at_once():
    calls, primitives = counting()
    plan = Plan([parse(WORDS, "relu(T1_D)"), parse(WORDS, "exp(T3)")], primitives=primitives)
    plan.scores([statistics(seed) for seed in range(4)])
    assert calls == [12, 8, 4]
    calls.clear()
    bare = Plan([parse(WORDS, "relu(T3)")], primitives=primitives)  # all instances have one shape
    bare.scores([statistics(seed) for seed in range(4)])
    assert calls == [24]


def test_no_network_gives_no_scores():
    assert Plan(programs(3)).scores([]).shape == (3, 0)


def test_a_program_may_be_a_part_of_another_or_stand_twice():
    texts = ["relu(T1_D)", "mean(relu(T1_D))", "T1_D", "relu(T1_D)", "add(relu(T1_D), relu(T1_D))"]
    got = Plan([parse(WORDS, text) for text in texts]).scores([statistics()])[:, 0]
    assert got[0] == got[3] == pytest.approx(got[1])
    assert got[4] == pytest.approx(2 * got[0])
    assert Plan([parse(WORDS, texts[2])]).scores([statistics()])[0, 0] == got[2]


def test_common_parts_are_computed_once():
    calls, primitives = counting()
    texts = ["relu(T1_D)", "mean(relu(T1_D))", "sub(relu(T1_D), T2_D)"]
    Plan([parse(WORDS, text) for text in texts], primitives=primitives).scores([statistics()])[:, 0]
    assert calls == [3, 2, 1]  # one call per group


def test_only_the_terminals_that_are_read_are_asked_for():
    plan = Plan([parse(WORDS, "mean(T3)"), parse(WORDS, "add(T3, T3)")])
    assert plan.terminals == {"T3"}
    given = statistics()
    bare = Statistics(6, tuple(Group({"T3": group.tensors["T3"]}, group.places) for group in given.groups))
    np.testing.assert_array_equal(plan.scores([bare])[:, 0], plan.scores([given])[:, 0])


def test_what_is_not_needed_any_more_is_let_go():
    alive, most = weakref.WeakSet(), []

    def counted(x):
        found = x + 1.0
        alive.add(found)
        most.append(len(alive))
        return found

    primitives = with_relu(counted)
    program = Program("T1_D")
    for _ in range(30):
        program = Program("relu", (program,))
    gc.disable()
    try:
        Plan([program], primitives=primitives).scores([statistics()])[:, 0]
    finally:
        gc.enable()
    assert len(most) == 90
    assert max(most) <= 3


def test_instances_that_do_not_fit_are_left_out_and_nothing_else_is():
    given = statistics()
    fitting, plain, never = (parse(WORDS, text) for text in ("frobenius(mul(T1_D, T2_D))", "T1_D", "add(T1_D, T3)"))
    cut = {name: tensor[..., :2] if name == "T2_D" else tensor for name, tensor in given.groups[0].tensors.items()}
    odd = Statistics(6, (Group(cut, given.groups[0].places), *given.groups[1:]))
    ((_, fits),) = Plan([fitting, plain, never]).values([odd])
    np.testing.assert_array_equal(fits, [[False, True, False, True, True, False], [True] * 6, [False] * 6])
    got = Plan([fitting, plain, never]).scores([odd])[:, 0]
    assert math.isnan(got[2])
    assert got[0] == pytest.approx(expected(fitting, odd))
    assert got[1] == Plan([plain]).scores([given])[0, 0]


def test_a_value_that_is_not_finite_is_a_score_that_is_not():
    given = statistics()
    given.groups[1].tensors["T1_D"][0] = math.inf
    texts = ["T1_D", "sub(T1_D, T1_D)", "T2_D", "inv(sub(T2_D, T2_D))", "abs(T1_D)"]
    got = Plan([parse(WORDS, text) for text in texts]).scores([given])[:, 0]
    assert got[0] == got[4] == math.inf
    assert math.isnan(got[1])
    assert math.isfinite(got[2])
    assert not math.isfinite(got[3])


def test_the_norm_of_a_number_is_the_number():
    programs = [parse(WORDS, text) for text in ("sub(mean(T1_D), numel(T1_D))", "numel(T1_D)")]
    got = Plan(programs, "l2").scores([statistics()])[:, 0]
    assert got[0] < 0 < got[1]


def test_bfloat16_is_read_as_float32():
    rounded = statistics(dtype=torch.bfloat16)
    wide = Statistics(6, tuple(Group({n: t.float() for n, t in g.tensors.items()}, g.places) for g in rounded.groups))
    many = programs(30)
    np.testing.assert_array_equal(Plan(many).scores([rounded])[:, 0], Plan(many).scores([wide])[:, 0])


def test_statistics_are_left_as_they_are():
    given, before = statistics(), statistics()
    Plan(programs(100, seed=1)).scores([given])[:, 0]
    for group, copy in zip(given.groups, before.groups, strict=True):
        for name, tensor in group.tensors.items():
            assert torch.equal(tensor, copy.tensors[name])
