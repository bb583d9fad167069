import io
import math

import pytest
from rich.console import Console
from zcbench.evolution.engine.fitness import NOTHING
from zcbench.evolution.engine.generations import Generation, State
from zcbench.evolution.engine.pools import Outcome
from zcbench.evolution.language.programs import Program
from zcbench.evolution.study.combine import EVOLVED, RANDOM, TOP, Combination
from zcbench.evolution.study.discover import Candidate, Discovery
from zcbench.evolution.study.explain import Response
from zcbench.evolution.study.found import Found
from zcbench.evolution.study.report import answers, candidates, combination

LONG = "add(" * 200 + "T1G_D" + ", frobenius(sigmoid(logdet(sign(T1G_D)))))" * 200


def printed(table):
    """Print a table as the command line does without a terminal; return its text."""
    console = Console(width=100, file=io.StringIO(), highlight=False)
    console.print(table)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    return text


def state(generations=16, population=2000):
    record = Generation(0, 0.5, 0.2, 0.5, 1.0, 0.3, 0.4, 12.0, 4.0, 1234.5, "mean(T3)")
    return State(generations - 1, population=[("mean(T3)", [0.5])] * population, records=[record] * generations)


def candidate(name, program, *rest):
    return Candidate(Found(name=name, program=program), *rest)


def discovery(pools, program="mean(T3)"):
    tau = {f"nb201 on imagenet16-120, batch {n}, seed 0": (-1) ** n * 0.999 for n in range(pools)}
    found = [candidate(f"evolved-{n:06x}", program, 2047, 0.5, 0.6, tau) for n in range(20)]
    found.append(candidate("evolved-ffffff", program, 1, NOTHING, -0.25, dict.fromkeys(tau, math.nan)))
    return Discovery(state(), found, [], [])


@pytest.mark.parametrize("pools", [1, 4, 48])
@pytest.mark.parametrize("program", ["mean(T3)", LONG])
def test_programs_fit_100_columns(pools, program):
    text = printed(candidates(discovery(pools, program))[0])
    assert "16 generations in 19752 s" in text
    assert "evolved-000000" in text
    assert text.count("evolved-") == 10
    assert text.count("+1.00") + text.count("-1.00") == 10 * pools
    cells = "".join(line[-40:] for line in text.splitlines())
    assert cells.count("T") >= 10


def test_every_number_of_a_candidate_stands_in_its_row():
    tau = {"a": 0.125, "b": -0.25}
    only = Discovery(state(), [candidate("evolved-123456", "mean(T3)", 2, 0.125, 0.75, tau)], [], [])
    rows = [line.split() for line in printed(candidates(only)[0]).splitlines()]
    assert ["0.125", "0.750", "2", "+0.12", "-0.25", "evolved-123456", "mean(T3)"] in rows


def test_the_fitness_on_validation_classes_stands_in_its_row():
    own = candidate("evolved-1", "mean(T3)", 2, 0.125, 0.75, {"a": 0.125}, 0.0625)
    text = printed(candidates(Discovery(state(), [own], [], []))[0])
    rows = [line.split() for line in text.splitlines()]
    assert ["0.125", "0.750", "0.062", "2", "+0.12", "evolved-1", "mean(T3)"] in rows
    assert "fitness on the validation classes" in " ".join(text.split())


def test_a_program_that_ranks_nothing_says_so():
    only = Discovery(state(), [candidate("evolved-1", "mean(T3)", 2, NOTHING, 0.5, {"a": math.nan})], [], [])
    rows = [line.split() for line in printed(candidates(only)[0]).splitlines()]
    assert ["none", "0.500", "2", "nan", "evolved-1", "mean(T3)"] in rows
    assert math.isnan(only.candidates[0].flat()["fitness"])


def test_no_test_is_no_table():
    assert len(candidates(discovery(1))) == 1
    assert len(candidates(Discovery(state(), [], [[]], []))) == 1


def outcome(what, chosen, pool, tau=-0.987):
    return Outcome(
        what, chosen, pool, 15_625, tau, -0.999, -0.111, -0.9, -1.0, -1.0, math.nan, *[-0.999] * 3, *[math.nan] * 3
    )


def test_aggregates_fit_100_columns():
    program = Program("add", (Program("naswot"), Program("params")))
    programs = dict.fromkeys((EVOLVED, RANDOM, TOP), program)
    pool = "tnb101_macro on tnb101-class_scene, class_scene/test-top1, board 01234567, tested on"
    found = [outcome(str(program), chosen, pool) for chosen in programs]
    found += [outcome("accuracy_at_init", f"best single proxy of {which}", pool) for which in ("this pool", "others")]
    text = printed(combination(Combination(state(), programs, found, 12.34)))
    assert "32,000 programs in 12.3 s" in text
    assert text.count("15625") == 1
    assert text.count("-0.987 [-1.00 -0.11]") == 5
    assert text.count("-0.999 [-1.00 -1.00]") == 5
    assert "accuracy_at_init" in text.replace("\n", "")
    assert f"{EVOLVED}: {program}" in text


def test_answers_fit_100_columns():
    found = [
        Response(factor, 7, 64, 32, mean, deviation, finite)
        for factor, mean, deviation, finite in (
            ("kernel", -1.23456789e-300, 1e-300, 1.0),
            ("channels", math.nan, math.nan, 0.0),
            ("size", 123456789.0, 1e300, 0.5),
        )
    ]
    text = printed(answers(found, 5000))
    rows = [line.split() for line in text.splitlines()]
    assert "5,000 random tensors" in text
    assert ["channels", "7", "64", "32", "nan", "nan", "0%"] in rows
    assert ["size", "7", "64", "32", "1.2346e+08", "1e+300", "50%"] in rows
