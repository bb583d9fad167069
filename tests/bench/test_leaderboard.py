from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats
from zcbench.__main__ import main
from zcbench.bench.board import boards
from zcbench.bench.leaderboard import verify, write
from zcbench.bench.protocol import StudyConfig
from zcbench.bench.runner import run
from zcbench.bench.study import resolve
from zcbench.errors import ResultsError


def study(out: Path, **changes: object) -> None:
    settings: dict[str, object] = {
        "dataset": "cifar10-samples",
        "accuracy": "analog-baseline",
        "proxies": ["naswot", "synflow"],
        "sample": 12,
        "batch_sizes": [2],
        "seeds": [0, 1],
        "tracker": "none",
    }
    assert run(resolve(StudyConfig(out=str(out), **(settings | changes))))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "results"
    study(folder)
    study(folder, proxies=["vote", "params"])
    study(folder, proxies=["macs"], sample=5)
    return folder


@pytest.fixture
def board(results: Path, tmp_path: Path) -> Path:
    write(results, tmp_path / "board")
    return tmp_path / "board"


def test_runs_on_the_same_networks_are_one_board(results: Path) -> None:
    small, large = sorted(boards(results), key=lambda board: len(board.recipe.accuracies))
    assert set(small.recipe.versions) == {"macs"}
    assert set(large.recipe.versions) == {"naswot", "synflow", "jacob_cov", "snip", "params", "vote"}
    assert large.recipe.aggregates == ("vote",)
    assert {work.proxies for work in large.recipe.work} == {
        ("params", "synflow", "jacob_cov", "snip", "naswot")
    } or len({frozenset(work.proxies) for work in large.recipe.work}) == 1
    assert set(large.sizes) == {"params", "macs", "convolutions", "isomorphism_class", "unreachable"}
    assert large.name == "nb201 on cifar10-samples, 12 networks, 2 seeds, cifar10/analog-baseline"


def test_the_table_is_what_scipy_says(results: Path, board: Path) -> None:
    table = pd.read_csv(board / "leaderboard.csv").query("networks == 12").set_index("proxy")
    assert set(table.index) == {"naswot", "synflow", "jacob_cov", "snip", "params", "macs", "random", "vote"}
    (large,) = (b for b in boards(results) if len(b.recipe.accuracies) == 12)
    scores = pq.read_table(board / "scores.parquet").to_pandas().query("proxy == 'naswot'")
    values = scores.pivot(index="architecture", columns="seed", values="value").loc[large.recipe.architectures]
    rho = np.mean([stats.spearmanr(values[seed], large.recipe.values).statistic for seed in (0, 1)])
    assert table.loc["naswot", "rho"] == pytest.approx(rho, rel=1e-12)
    rho = stats.spearmanr(large.sizes["macs"], large.recipe.values).statistic
    assert table.loc["macs", "rho"] == pytest.approx(rho, rel=1e-12)


def test_equal_scores_give_equal_bytes(results: Path, board: Path, tmp_path: Path) -> None:
    write(results, tmp_path / "again")
    names = sorted(path.name for path in board.iterdir())
    assert names == ["boards.json", "index.html", "leaderboard.csv", "leaderboard.md", "scores.parquet"]
    for name in names:
        assert (board / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[int] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append(0)
        elif tag in {"td", "th"}:
            self.rows[-1] += 1
        self.addresses += [str(value) for name, value in attrs if name in {"src", "href"}]


def test_the_page_needs_nothing_else(board: Path) -> None:
    text = (board / "index.html").read_text("utf-8")
    page = Page(text)
    assert page.addresses == []
    assert "http" not in text
    assert set(page.rows) == {16}
    assert len(page.rows) == 2 + 8 + 3
    assert "nb201 on cifar10-samples, 12 networks, 2 seeds" in text


def test_a_leaderboard_follows_from_its_scores(board: Path) -> None:
    assert verify(board) == []


def altered(board: Path, change: Callable[[pd.DataFrame], None]) -> list[str]:
    rows = pd.read_parquet(board / "scores.parquet")
    change(rows)
    rows.to_parquet(board / "scores.parquet", index=False)
    return verify(board)


def test_an_altered_number_is_named(board: Path) -> None:
    path = board / "leaderboard.csv"
    lines = path.read_text().splitlines()
    column = lines[0].split(",").index("rho")
    cells = lines[2].split(",")
    cells[column] = "0.99"
    path.write_text("\n".join([*lines[:2], ",".join(cells), *lines[3:]]) + "\n")
    (fault,) = verify(board)
    assert "line 3" in fault
    assert "rho is 0.99, its scores give " in fault
    path.write_text("\n".join(lines[:-1]) + "\n")
    assert verify(board) == [f"leaderboard.csv has {len(lines) - 2} rows, its scores give {len(lines) - 1}"]


def test_an_altered_score_is_found(board: Path) -> None:
    def change(rows: pd.DataFrame) -> None:
        rows.loc[rows.index[rows["proxy"] == "naswot"], "value"] *= -1

    faults = altered(board, change)
    assert any("naswot of nb201: rho is" in fault for fault in faults)


def test_parameters_that_differ_between_seeds_are_found(board: Path) -> None:
    def change(rows: pd.DataFrame) -> None:
        rows.loc[rows.index[rows["proxy"] == "params"][0], "value"] += 1

    assert any("params as scored is not what the space states" in fault for fault in altered(board, change))


def test_missing_scores_are_named(board: Path) -> None:
    pd.read_parquet(board / "scores.parquet").iloc[1:].to_parquet(board / "scores.parquet", index=False)
    with pytest.raises(ResultsError, match=r"1 of \d+ scores are missing: run the study again"):
        verify(board)


def test_missing_parts_are_named(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "torn")
    next((tmp_path / "torn" / "scores").glob("*.parquet")).unlink()
    with pytest.raises(ResultsError, match="scores are missing: run the study again"):
        write(tmp_path / "torn", tmp_path / "board")
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is torn"),
        ("[" * 100_000, "is torn"),
        ("{}", "no record of a run that this zcbench reads"),
        ("[]", "no record of a run that this zcbench reads"),
        ('{"recipe": {}, "sizes": {}, "environment": {}}', "no recipe that this zcbench reads"),
    ],
)
def test_bad_records_are_one_line(results: Path, tmp_path: Path, content: str, message: str) -> None:
    shutil.copytree(results, tmp_path / "bad")
    path = next((tmp_path / "bad" / "runs").glob("*.json"))
    path.write_text(content)
    with pytest.raises(ResultsError, match=message) as caught:
        boards(tmp_path / "bad")
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_record_that_lost_a_field(results: Path, tmp_path: Path) -> None:
    path = next((results / "runs").glob("*.json"))
    record = json.loads(path.read_text())
    (tmp_path / "runs").mkdir()
    for field in record["recipe"]:
        recipe = {name: value for name, value in record["recipe"].items() if name != field}
        (tmp_path / "runs" / "r.json").write_text(json.dumps(record | {"recipe": recipe}))
        with pytest.raises(ResultsError, match=f"KeyError: '{field}'"):
            boards(tmp_path)
    (tmp_path / "runs" / "r.json").write_text(json.dumps(record | {"sizes": {"params": [1.0]}}))
    with pytest.raises(ResultsError, match="expected sizes of "):
        boards(tmp_path)


def test_the_command(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["leaderboard", "--results", str(results), "--out", out]) == 0
    assert "12 networks, 2 seeds, cifar10/analog-baseline: 8 proxies, first " in capsys.readouterr().out
    assert main(["leaderboard", "--out", out, "--verify"]) == 0
    (tmp_path / "out" / "leaderboard.csv").write_text("proxy\n")
    assert main(["leaderboard", "--out", out, "--verify"]) == 1
    assert main(["leaderboard", "--out", str(tmp_path / "none"), "--verify"]) == 2
    assert main(["leaderboard", "--results", str(tmp_path / "none"), "--out", out]) == 2
    assert "hold no runs" in capsys.readouterr().err
