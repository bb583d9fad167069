from __future__ import annotations

from pathlib import Path

import pytest
import zcbench
from zcbench.errors import ProgramError
from zcbench.evolution.data.statistics import TERMINALS
from zcbench.evolution.study.found import Found
from zcbench.evolution.study.shown import programs, read, words

EVOLVED = Path(zcbench.__file__).parent / "docs" / "evolution"


def test_a_program_is_named_by_what_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    Found(name="p", program="add(abs(T2_P), mul(T3, T2_P))", direction="lower", recipe={"tau": {"a": -0.5}}).write(path)
    found = read(path)
    assert found.title == "add of T2_P and T3"
    assert found.tree == ["add", ["abs", ["T2_P"]], ["mul", ["T3"], ["T2_P"]]]
    assert found.reads["T2_P"] == "the input of the convolution, as it changes when the images are perturbed"
    assert list(found.operations) == ["add", "abs", "mul"]
    assert found.operations["add"] == "A + B."
    assert (found.higher, found.fitted) == (False, {"tau on a": -0.5})


def test_an_aggregate_reads_scores(tmp_path: Path) -> None:
    Found(name="p", program="add(naswot, mul(zen, 2))", over="ranks").write(tmp_path / "p.json")
    found = read(tmp_path / "p.json")
    assert found.title == "add of naswot and zen"
    assert found.reads == {"naswot": "the score of naswot", "zen": "the score of zen"}


def test_a_formula_reads_layer_tables(tmp_path: Path) -> None:
    Found(name="p", program="mul(10, sum(snip))", over="layers").write(tmp_path / "p.json")
    found = read(tmp_path / "p.json")
    assert found.title == "mul of snip"
    assert found.reads == {"snip": "Sum of |w g| over the weight; its sum over maps is the proxy `snip`."}
    assert found.operations == {"mul": "a b.", "sum": "Sum over the maps of a network."}


def test_the_least_tau_of_several_pools_and_what_was_opened(tmp_path: Path) -> None:
    opening = {"date": "2026-11-30", "space": "nb201", "dataset": "cifar10", "n": 40}
    opening |= {"tau": 0.81, "tau_low": 0.71, "tau_high": 0.88}
    made = Found(name="p", program="mul(10, sum(snip))", over="layers", recipe={"tau": 0.67}, openings=[opening])
    made.write(tmp_path / "p.json")
    found = read(tmp_path / "p.json")
    assert found.fitted == {"tau on the pool where its tau is least": 0.67}
    assert found.sealed == {"40 sealed networks of nb201 on cifar10, 2026-11-30": (0.81, 0.71, 0.88)}
    del opening["tau"]
    Found(name="p", program="mul(10, sum(snip))", over="layers", openings=[opening]).write(tmp_path / "p.json")
    with pytest.raises(ProgramError, match=r"expected openings that zcbench evolve --open wrote \(tau is missing\)"):
        read(tmp_path / "p.json")


def test_a_gain_is_not_called_tau(tmp_path: Path) -> None:
    recipe = {"objective": "gain", "tau": {"nb201": 0.015}, "gain": 0.015}
    Found(name="p", program="sum(snip)", over="layers", recipe=recipe).write(tmp_path / "p.json")
    assert read(tmp_path / "p.json").fitted == {"gain on nb201": 0.015}


def test_every_terminal_has_words() -> None:
    assert words("T4G_N") == "the gradient of the output of the batch norm, on noise"
    assert all(not words(name).startswith("the score") for name in TERMINALS)


def test_folders_are_read_in_order() -> None:
    found = programs([EVOLVED / "nb201", EVOLVED / "seed0" / "evolved-4f3499.json"])
    assert [program.name for program in found] == [
        "evolved-7a300e", "evolved-a2d1cd", "evolved-f70f08", "evolved-4f3499",
    ]  # fmt: skip
    with pytest.raises(ProgramError, match="got two of evolved-7a300e"):
        programs([EVOLVED / "nb201", EVOLVED / "nb201" / "evolved-7a300e.json"])


def test_what_is_no_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="expected a folder with program files of zcbench evolve, got"):
        programs([tmp_path])
    (tmp_path / "p.json").write_text("{}")
    with pytest.raises(ProgramError, match="expected a file that `zcbench evolve` wrote"):
        programs([tmp_path])
    Found(name="p", program="T3", recipe={"tau": {"a": "high"}}).write(tmp_path / "p.json")
    with pytest.raises(ProgramError, match="expected a number tau for each pool"):
        programs([tmp_path])
