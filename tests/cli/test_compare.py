from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from zcbench.__main__ import main
from zcbench.evolution.study.found import Found

Refused = Callable[[list[str]], str]
RUN = ["run", "--sample", "12", "--proxies", "naswot,conv_count", "--batch_sizes", "[2]", "--resamples", "50"]


def test_one_line_a_pair_and_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--tracker", "none"]) == 0
    capsys.readouterr()
    assert main(["compare", "naswot", "--with", "conv_count,params", "--figure", "naswot.svg"]) == 0
    text = capsys.readouterr().out
    starts = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert {"conv_count", "params"} <= set(starts)
    assert Path("naswot.svg").read_text("utf-8").lstrip().startswith("<?xml")
    assert main(["compare", "naswot", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["second"] for record in records] == ["params", "macs"]
    assert main(["compare", "conv_count", "--with", "[naswot]", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["n"] <= 12
    assert main(["compare", "naswott"]) == 2
    assert "did you mean naswot" in capsys.readouterr().err


def test_several_boards_are_compared_by_the_lowest_tau_too(capsys: pytest.CaptureFixture[str]) -> None:
    for sample in ("12", "14"):
        assert main([*RUN, "--tracker", "none", "--sample", sample]) == 0
    capsys.readouterr()
    assert main(["compare", "naswot", "--with", "conv_count,params"]) == 0
    tables = capsys.readouterr().out.split("\n\n")
    assert len(tables) == 3
    assert tables[-1].startswith("naswot against others, each where it ranks worst of 2 boards")
    assert "cifar10-samples (12)" in tables[-1] or "cifar10-samples (14)" in " ".join(tables[-1].split())
    assert main(["compare", "naswot", "--with", "conv_count,params", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert ["lowest_tau_difference" in record for record in records] == [False] * 4 + [True] * 2
    assert main([*RUN[:3], "--proxies", "naswot,snip", *RUN[5:], "--tracker", "none", "--sample", "13"]) == 0
    capsys.readouterr()
    assert main(["compare", "naswot", "--with", "snip"]) == 0
    assert "left out: 2 of 3 boards, which lack one of these proxies" in capsys.readouterr().err
    assert main(["compare", "naswot", "--with", "vote"]) == 2
    assert "vote has no scores in results: score it first" in capsys.readouterr().err


def test_why_there_is_no_lowest_tau_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for sample in ("3", "4"):
        own = ["--sample", sample, "--proxies", "naswot", "--batch_sizes", "[2,3]", "--resamples", "10"]
        assert main(["run", *own, "--tracker", "none"]) == 0
    assert main(["compare", "naswot", "--json"]) == 0
    assert "no lowest tau over the boards: a proxy has several batch sizes" in capsys.readouterr().err


def test_a_published_board_is_compared_without_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    board = Path(__file__).parents[2] / "docs" / "board"
    command = ["compare", "meco", "--with", "synflow", "--results", str(board), "--space", "nb301", "--json"]
    assert main(command) == 0
    (record,) = json.loads(capsys.readouterr().out)
    table = pd.read_csv(board / "leaderboard.csv").query("space == 'nb301'").set_index("proxy")
    assert record["tau_first"] == pytest.approx(table.loc["meco", "tau"])
    assert record["tau_second"] == pytest.approx(table.loc["synflow", "tau"])
    assert main(["compare", "meco", "--results", str(board / "boards.json")]) == 2
    assert "expected the folder of results or of a leaderboard, got the file" in capsys.readouterr().err
    assert main([*command[:3], "synflowy", *command[4:]]) == 2
    assert "did you mean synflow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "expected PROXY, got none"),
        (["naswot"], "results: results does not exist: start a run"),
        (["naswot", "--figure", "a.png"], "expected a name that ends in .svg"),
        (["naswot", "--figure", "nowhere/a.svg"], "in a folder that exists"),
    ],
    ids=str,
)
def test_bad_arguments_are_one_line(arguments: list[str], word: str, refused: Refused) -> None:
    assert word in refused(["compare", *arguments])


def test_networks_that_a_program_has_seen_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = {"grounds": [{"space": "nb201", "dataset": "cifar10"}], "pool": 30, "sample_seed": 0}
    Found(name="evolved-here", program="sum(macs)", over="layers", batch_size=2, recipe=recipe).write(Path("here.json"))
    own = ["--sample", "45", "--proxies", "evolved-here,conv_count", "--include", "here.json"]
    assert main([*RUN[:1], *own, "--batch_sizes", "[2]", "--resamples", "50", "--tracker", "none"]) == 0
    capsys.readouterr()
    asked = ["compare", "evolved-here", "--with", "conv_count", "--unseen"]
    assert main([*asked, "--include", "here.json", "--json"]) == 0
    written = capsys.readouterr()
    (record,) = json.loads(written.out)
    # The pool is drawn as the board's networks are, so the first thirty of these are in it.
    assert record["n"] <= 15
    assert "of 45 networks are unseen" in written.err
    assert main([*asked[:2], "--with", "evolved-there", *asked[4:], "--include", "here.json"]) == 2
    assert "nothing says what evolved-there has seen: name its file with --include" in capsys.readouterr().err
    assert main(asked) == 2
    assert "unseen: expected the files of programs in --include" in capsys.readouterr().err
    Found(name="evolved-here", program="sum(macs)", over="layers", batch_size=2, recipe=recipe | {"pool": 40}).write(
        Path("here.json")
    )
    assert main([*asked, "--include", "here.json"]) == 2
    *_, count, said = capsys.readouterr().err.splitlines()
    assert "of 45 networks are unseen: left out, as fewer than 10" in count
    assert said.startswith(
        "zcbench: unseen: no board has 10 or more networks that evolved-here have not seen: score oth"
    )
