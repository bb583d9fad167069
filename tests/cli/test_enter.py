"""An entry from its file to its row on the board, and a board that is scored anew."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from zcbench.__main__ import main
from zcbench.bench.report.leaderboard import verify
from zcbench.bench.results.published.recompute import recompute
from zcbench.bench.results.published.sources import BOARDS, SCORES, read

PROXY = '''
from zcbench import reads, register
from zcbench.proxies.passes import LOSS, Layers

@register("entered", paper="a test")
def entered(layers: Layers = reads(LOSS)) -> float:
    """Take the largest gradient."""
    return max(float(g.abs().max()) for _, g in layers)
'''


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    study = ["--dataset", "cifar10-samples", "--accuracy", "analog-baseline", "--proxies", "naswot,params", "--sample"]
    more = ["12", "--batch_sizes", "[2]", "--resamples", "50", "--tracker", "none", "--machines", "any"]
    assert main(["run", *study, *more, "--out", str(folder / "results")]) == 0
    assert main(["leaderboard", "--results", str(folder / "results"), "--out", str(folder / "board")]) == 0
    return folder / "board"


@pytest.fixture
def board(published: Path, tmp_path: Path) -> Path:
    Path("entered.py").write_text(PROXY)
    return Path(shutil.copytree(published, tmp_path / "board"))


def test_an_entry_comes_to_its_row(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read(board)[0][1]
    assert main(["enter", "entered.py", "--to", "board", "--out", "mine"]) == 0
    shown = capsys.readouterr()
    assert "nb201-cifar10-samples v2   entered" in shown.out
    assert "zcbench leaderboard --results board --entries mine" in shown.err
    assert {path.name for path in Path("mine").iterdir()} == {SCORES, BOARDS, "entered.py"}
    assert Path("mine/entered.py").read_text() == PROXY
    assert main(["leaderboard", "--results", "board", "--entries", "mine", "--out", "board"]) == 0
    # Before, no line named the entry.
    own = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"entered: rank \d .*of 5 on nb201-cifar10-samples v2; mean rank \d\.\d\d", own)
    table = pd.read_csv(board / "leaderboard.csv")
    assert {*table["proxy"]} == {"naswot", "params", "macs", "random", "entered"}
    assert set(pd.read_csv(board / "overview.csv")["proxy"]) == {*table["proxy"]}
    assert verify(board) == []
    # The scores that were there are as they were, and the folder of entries may be named instead of each.
    ((_, rows),) = read(board)
    kept = rows[rows["proxy"] != "entered"].drop(columns="attempts").reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, before.drop(columns="attempts").reset_index(drop=True))
    first = (board / "leaderboard.csv").read_bytes()
    assert main(["leaderboard", "--results", "board", "--entries", ".", "--out", "again"]) == 0
    assert (Path("again") / "leaderboard.csv").read_bytes() == first


def test_a_proxy_with_a_fault_makes_no_entry(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del board
    faulty = PROXY.replace("entered", "faulty").replace("max(float(g.abs().max()) for _, g in layers)", "float('nan')")
    Path("faulty.py").write_text(faulty)
    assert main(["enter", "faulty.py", "--to", "board", "--out", "mine"]) == 1
    assert "zcbench: faulty: " in capsys.readouterr().err
    assert not Path("mine").exists()


def _beside_one_without_images(board: Path, *, alone: bool) -> None:
    """Put boards on the images of CIFAR-10, which the data folder of these tests does not have, before that of a board.

    If they are alone, the board itself goes.
    """
    (document,) = json.loads((board / BOARDS).read_text())
    absent = [document | {"recipe": document["recipe"] | {"dataset": name}} for name in ("cifar10", "cifar100")]
    (board / BOARDS).write_text(json.dumps([*absent, *([] if alone else [document])]))


def test_absent_data_is_said_before_anything_is_scored(
    board: Path, refused: Callable[[list[str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zcbench.cli.enter._faults", lambda *_: pytest.fail("the proxy was checked"))
    _beside_one_without_images(board, alone=True)
    Path("absent.py").write_text(PROXY)
    line = refused(["enter", "absent.py", "--to", "board"])
    wanted = "boards: expected data files at hand, but none of the 2 boards has them; the easiest to get: nb201-"
    assert wanted in line
    assert (
        "lacks cifar10: set ZCBENCH_DATA to a folder that has the files, or get them: zcbench data get cifar10" in line
    )
    assert "cifar100" not in line
    Path("named.py").write_text(PROXY.replace("entered", "named"))
    line = refused(["enter", "named.py", "--to", "board", "--boards", "nb201-cifar10,nb201-cifar100"])
    assert line.endswith("zcbench data get cifar10; zcbench data get cifar100")


def test_a_board_without_data_is_left_out(
    board: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    # It is checked on the images that are there, and found at fault, so that nothing is scored.
    monkeypatch.setattr("zcbench.cli.enter._faults", lambda study, _: checked.append(study.images.name) or 1)
    _beside_one_without_images(board, alone=False)
    Path("left_out.py").write_text(PROXY)
    assert main(["enter", "left_out.py", "--to", "board"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "zcbench: 2 of 3 boards are left out:"
    assert [line.rpartition(" lacks ")[2] for line in lines[1:3]] == ["cifar10", "cifar100"]
    assert lines[3].startswith("zcbench: set ZCBENCH_DATA to a folder that has the files, or get them: ")
    assert checked == ["cifar10-samples"]


def test_an_entry_whose_scores_failed_says_so(
    board: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del board
    monkeypatch.setattr("zcbench.cli.enter._faults", lambda *_: 0)  # as if it failed on none of the first networks
    raising = PROXY.replace("entered", "raising").replace("max(float(g.abs().max()) for _, g in layers)", "1 / 0")
    Path("raising.py").write_text(raising)
    assert main(["enter", "raising.py", "--to", "board", "--out", "mine", "--results", "raised", "--json"]) == 4
    output = capsys.readouterr()
    assert "12 of 12 scores failed" in output.err
    (record,) = json.loads(output.out)
    assert (record["proxy"], record["place"], record["tau"]) == ("raising", None, None)


def test_an_entry_never_replaces_a_leaderboard(board: Path, refused: Callable[[list[str]], str]) -> None:
    """Before, the scores of the board were lost, and the exit status was 0."""
    before = {path.name: path.read_bytes() for path in board.iterdir() if path.is_file()}
    shutil.copytree(board, "copy")
    for out in ("board", "copy"):
        line = refused(["enter", "entered.py", "--to", "board", "--out", out])
        assert f"out: expected a folder of its own for the entry, got {out}, which holds a leaderboard" in line
    assert {path.name: path.read_bytes() for path in board.iterdir() if path.is_file()} == before
    assert "entries: expected a folder that zcbench enter wrote, got copy" in refused(
        ["leaderboard", "--results", "board", "--entries", "copy", "--out", "new"]
    )


def test_scores_of_an_entry_never_replace_others(
    board: Path, refused: Callable[[list[str]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, the last entry with a name won, also over a published proxy."""
    Path("ours.py").write_text(PROXY.replace("entered", "ours"))
    assert main(["enter", "ours.py", "--to", "board", "--out", "mine"]) == 0
    capsys.readouterr()
    for name in ("ours", "naswot"):
        other = Path(shutil.copytree("mine", f"as-{name}"))
        rows = pd.read_parquet(other / SCORES)
        rows["proxy"], rows["value"] = name, rows["value"] * 2
        rows.to_parquet(other / SCORES)
        text = (other / BOARDS).read_text().replace("ours", name)
        (other / BOARDS).write_text(text)
    entries = {"ours": "mine,as-ours", "naswot": "as-naswot"}
    for name, named in entries.items():
        line = refused(["leaderboard", "--results", "board", "--entries", named, "--out", "new"])
        assert f"entry as-{name}: its scores of {name} differ from those that the board or another entry has" in line
    assert not Path("new").exists()
    del board


def test_an_entry_of_other_networks_is_refused(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Path(shutil.copytree(board, "other"))
    (document,) = json.loads((other / BOARDS).read_text())
    document["recipe"]["accuracies"] = dict(list(document["recipe"]["accuracies"].items())[:-1])
    document["sizes"] = {name: values[:-1] for name, values in document["sizes"].items()}
    document["recipe"]["classes"] = document["recipe"]["classes"][:-1]
    (other / BOARDS).write_text(json.dumps([document]))
    (other / "leaderboard.csv").unlink()  # with it, the folder is a leaderboard and no entry
    assert main(["leaderboard", "--results", "board", "--entries", "other", "--out", "new"]) == 2
    assert "entry other: its networks, images, protocol or torch are of no board here" in capsys.readouterr().err
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["enter"], "file: expected a Python file that registers a proxy, or --program, got none"),
        (["enter", "entered.py", "--to", "nowhere"], "expected a leaderboard in nowhere, but there is no such folder"),
        (
            ["enter", "entered.py", "--to", "board", "--boards", "x"],
            "boards: expected one of nb201-cifar10-samples",
        ),
        (["enter", "empty.py", "--to", "board"], "got empty.py, no @register"),
        (
            ["leaderboard", "--results", "board", "--entries", "nowhere"],
            "entries: expected a folder that zcbench enter",
        ),
        (["leaderboard", "--out", "board", "--recompute", "13"], "recompute: expected 1 to 12 networks, got 13"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, board: Path, refused: Callable[[list[str]], str]
) -> None:
    del board
    Path("empty.py").write_text("")
    assert message in refused(arguments)


def test_a_board_is_scored_anew(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", "--out", str(board), "--recompute", "3"]) == 0
    assert "3 networks scored again, 2 of 2 proxies as published" in capsys.readouterr().out
    ((_, count, findings),) = recompute(board, 4, seed=1)
    assert count == 4
    assert {(f.proxy, f.outcome) for f in findings} == {("naswot", "same"), ("params", "same")}


def test_a_score_that_was_changed_is_found(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pq.read_table(board / SCORES).to_pandas()
    rows.loc[rows["proxy"] == "naswot", "value"] *= 1.001
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), board / SCORES)
    assert main(["leaderboard", "--out", str(board), "--recompute", "3"]) == 1
    assert "naswot: regressed" in capsys.readouterr().out


def test_other_accuracies_here_are_refused(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (document,) = json.loads((board / BOARDS).read_text())
    name = next(iter(document["recipe"]["accuracies"]))
    document["recipe"]["accuracies"][name] += 1
    (board / BOARDS).write_text(json.dumps([document]))
    assert main(["leaderboard", "--out", str(board), "--recompute", "3"]) == 2
    assert "accuracy: expected the values of cifar10/analog-baseline that the board has" in capsys.readouterr().err
