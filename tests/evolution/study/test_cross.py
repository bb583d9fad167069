"""Tests of the table of programs and spaces, on small networks whose accuracies follow the number of weights."""

import dataclasses
import io
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from zcbench.bench.scoring.runner import run
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import resolve
from zcbench.datasets import data_folder
from zcbench.errors import ProgramError, ResultsError
from zcbench.evolution.study.cross import cross, picture, reading
from zcbench.evolution.study.found import Found, register
from zcbench.spaces import SPACES
from zcbench.spaces.space import Sizes
from zcbench.tools.cross import main

pytestmark = pytest.mark.usefixtures("_small")


def evolved(name, program, *grounds, pool=6, seed=0):
    recipe = {"grounds": [{"space": s, "dataset": d} for s, d in grounds], "pool": pool, "sample_seed": seed}
    return Found(name=name, program=program, batch_size=1, recipe=recipe if grounds else {})


HERE = ("small", "cifar10-samples")
FOUND = [
    evolved("wide", "numel(T3)", HERE),
    evolved("loud", "frobenius(T1_D)", ("faulty", "cifar10-samples"), HERE, seed=1),
    evolved("known", "mean(T4_P)"),
]


@pytest.fixture
def results(tmp_path, monkeypatch):
    # Sizes of a space without a closed form are counted on every network.
    monkeypatch.setattr(SPACES["small"], "sizes_of", lambda self, architecture, task: Sizes(1, 1))
    for found in FOUND:
        found.write(tmp_path / "programs" / f"{found.name}.json")
        register(tmp_path / "programs" / f"{found.name}.json")
    folder = tmp_path / "results"
    run(
        resolve(
            StudyConfig(
                space="small",
                dataset="cifar10-samples",
                accuracy="made",
                proxies=["params", *(found.name for found in FOUND)],
                sample=40,
                batch_sizes=[1],
                seeds=[0],
                out=str(folder),
                tracker="none",
            )
        )
    )
    return folder


def test_networks_that_a_program_was_evolved_on_are_no_test(results):
    cells = cross(results, FOUND, data_folder())
    assert [cell.proxy for cell in cells] == ["wide", "loud", "known", "params"]
    space = SPACES["small"](None)
    pools = {*space.sample(6, 0), *space.sample(6, 1)}
    assert {cell.networks for cell in cells} == {40 - len(pools)}
    left = [index for index in range(40) if index not in pools]
    weights = [sum(o * i * k * k for i, o, k in space.convolutions(index)) for index in left]
    truth = space.truth("cifar10", "made").values[left]
    wide = cells[0]
    numel = [np.mean([o * i * k * k for i, o, k in space.convolutions(index)]) for index in left]
    assert wide.tau == pytest.approx(kendalltau(numel, truth).statistic)
    assert weights != numel
    for cell in cells:
        assert cell.tau_low <= cell.tau <= cell.tau_high


def test_cells_say_where_programs_were_evolved(results):
    cells = {cell.proxy: cell for cell in cross(results, FOUND, data_folder())}
    assert cells["wide"].evolved == "small/cifar10-samples"
    assert cells["loud"].evolved == "faulty/cifar10-samples small/cifar10-samples"
    assert cells["loud"].program == "frobenius(T1_D)"
    assert (cells["known"].evolved, cells["params"].evolved, cells["params"].program) == ("", "", "")
    assert [cells[name].own for name in ("wide", "loud", "known", "params")] == [True, True, False, False]


def test_as_a_command_it_writes_csv(results, capsys):
    files = [str(results.parent / "programs" / f"{found.name}.json") for found in FOUND]
    assert main([str(results), *files]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(table["proxy"]) == ["wide", "loud", "known", "params"]
    assert table["tau"].to_numpy() == pytest.approx([c.tau for c in cross(results, FOUND, data_folder())], abs=1e-4)
    assert main([str(results), *files[:2], "--with", "params"]) == 0
    assert list(pd.read_csv(io.StringIO(capsys.readouterr().out))["proxy"]) == ["wide", "loud", "params"]
    assert main([str(results), *files, "--with", "synflow"]) == 2
    assert "no scores of synflow" in capsys.readouterr().err


def test_the_picture_has_a_row_a_proxy_and_a_column_a_board(results):
    pytest.importorskip("matplotlib")
    cells = cross(results, FOUND, data_folder())
    path = results.parent / "cross.svg"
    picture(path, cells)
    text = path.read_text()
    for label in (
        "numel(T3) from small/cifar10-samples",
        "frobenius(T1_D) from 2 grounds",
        "mean(T4_P)",
        "params",
        "1 image",
    ):
        assert f">{label}<" in text
    for cell in cells:
        assert f">{cell.tau:.2f}<" in text.replace("\N{MINUS SIGN}", "-")
    # with two batch sizes on one board, each has a row
    picture(path, [*cells, *(dataclasses.replace(cell, batch_size=4) for cell in cells)])
    both = path.read_text()
    assert ">params (1)<" in both
    assert ">params (4)<" in both
    assert ">1 image<" not in both


@pytest.mark.parametrize(
    ("program", "label"),
    [
        ("gt(gt0(T4G_N), abslog(abslog(T1_P)))", "gt(T4G_N, T1_P)"),
        ("mul(T3, T3)", "mul(T3)"),
        ("mul(0.5, sum(params))", "mul(params)"),
        ("T3", "T3"),
        ("", ""),
    ],
)
def test_a_program_is_named_by_what_it_reads(program, label):
    assert reading(program) == label


def test_what_is_missing_is_named(results, capsys, tmp_path):
    other = evolved("other", "T3", HERE)
    with pytest.raises(ResultsError, match=r"no scores of other in .*results"):
        cross(results, [*FOUND, other], data_folder())
    with pytest.raises(ResultsError, match="only 0 networks are unseen: expected 3 or more"):
        cross(results, [evolved("wide", "numel(T3)", HERE, pool=40)], data_folder())
    for recipe in (
        {"grounds": [{"space": "small"}]},
        {"grounds": 3},
        {"grounds": [{"space": HERE[0], "dataset": HERE[1]}]},
    ):
        with pytest.raises(ProgramError, match="wide: its recipe does not say which networks it was evolved on"):
            cross(results, [dataclasses.replace(FOUND[0], recipe=recipe)], data_folder())
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([str(results)])
    assert "required: programs" in capsys.readouterr().err
    (tmp_path / "torn.json").write_text(json.dumps({"format": 1}))
    assert main([str(results), str(tmp_path / "torn.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
