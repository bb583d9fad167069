from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import zcbench
from rich.console import Console
from scipy import stats
from zcbench.__main__ import main
from zcbench.bench.report import figures, leaderboard
from zcbench.bench.report.leaderboard import verify, write
from zcbench.bench.report.page import COLUMNS
from zcbench.bench.report.table import as_csv, terminal
from zcbench.bench.results.board import boards
from zcbench.bench.scoring.parts import Row
from zcbench.bench.scoring.runner import run
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import PROTOCOL, StudyConfig
from zcbench.bench.study.recipe import Recipe, Work
from zcbench.bench.study.resolve import resolve
from zcbench.errors import IncompleteError, ResultsError


def study(out: Path, **changes: object) -> None:
    settings: dict[str, object] = {
        "dataset": "cifar10-samples",
        "accuracy": "analog-baseline",
        "proxies": ["naswot", "synflow"],
        "sample": 12,
        "batch_sizes": [2],
        "seeds": [0, 1],
        "resamples": 50,
        "tracker": "none",
    }
    run(resolve(StudyConfig(out=str(out), **(settings | changes))))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "results"
    study(folder)
    study(folder, proxies=["vote", "params"])
    study(folder, proxies=["macs"], sample=5)
    return folder


@pytest.fixture(scope="module")
def written(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaderboard") / "board"
    write(results, folder)
    return folder


@pytest.fixture
def board(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "board"))


def made(
    out: Path,
    scores: dict[str, Callable[[np.ndarray, int, int], np.ndarray]],
    *,
    truth: Sequence[float] | None = None,
    first: int = 0,
    seeds: tuple[int, ...] = (0,),
    sizes: tuple[int, ...] = (16,),
    dataset: str = "d",
    when: str = "a",
    versions: dict[str, int] | None = None,
    name: str = "",
    resamples: int = 40,
    without: str = "nan",
) -> Recipe:
    """Write a run whose scores are functions of accuracies, seed and batch size; its networks are numbered on."""
    values = np.asarray(np.random.RandomState(3).permutation(30) if truth is None else truth, dtype=float)
    names = [f"net{first + i:03}" for i in range(len(values))]
    work = tuple(Work(seed, size, tuple(scores)) for seed in seeds for size in sizes)
    recipe = Recipe(
        space="made",
        dataset=dataset,
        truth=f"{dataset}/test",
        label="made up",
        protocol=PROTOCOL,
        device="cpu",
        torch="2",
        accuracies=dict(zip(names, values.tolist(), strict=True)),
        work=work,
        batches={(w.batch_size, w.seed): f"h{w.batch_size}-{w.seed}" for w in work},
        versions=dict.fromkeys(scores, 1) | (versions or {}),
        lower=(),
        aggregates=(),
        batch_sizes=sizes,
        resamples=resamples,
    )
    store = Store(out)
    store.create()
    rows = []
    for w in work:
        for proxy, function in scores.items():
            for network, value in zip(names, function(values, w.seed, w.batch_size).tolist(), strict=True):
                status = "ok" if np.isfinite(value) else without
                key = recipe.key(network, w, proxy)
                rows.append(Row(*key, value=value, status=status, message="", wall_s=0.01, peak_mib=1.0))
    with store.writer() as writer:
        writer.add(rows)
    sizes_of = {"params": np.arange(len(values)).tolist(), "macs": (np.arange(len(values)) % 7.0).tolist()}
    record = {"recipe": recipe.document(), "sizes": sizes_of, "environment": {"python": "3"}, "config": {"name": name}}
    (out / "runs" / f"{when}.json").write_text(json.dumps(record))
    return recipe


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time."""
    monkeypatch.setattr(figures, "available", lambda: False)


def noisy(truth: np.ndarray, seed: int, size: int) -> np.ndarray:
    return truth + 20 / size * np.random.RandomState(seed + 100 * size).normal(size=len(truth))


def table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}.csv", keep_default_na=False, na_values=["nan"], dtype={"id": str})


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
    assert large.title == f"nb201-cifar10-samples v{PROTOCOL}"
    assert len({small.id, large.id}) == 2


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
    names = sorted(str(path.relative_to(board)) for path in board.rglob("*") if path.is_file())
    drawings = [name for name in names if name.startswith("figures/")]
    tables = ["ablation", "agreement", "curves", "differences", "leaderboard", "overview", "seeds"]
    # Two boards have two seeds and one batch size; each has seeds, curves and agreement to show.
    assert set(names) - set(drawings) == {
        *(f"{name}.csv" for name in tables),
        "ablation.md",
        "boards.json",
        "index.html",
        "leaderboard.md",
        "scores.parquet",
    }
    assert len(drawings) == 6
    for name in names:
        assert (board / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_several_processes_rank_as_one(
    results: Path, board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "_MANY", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(leaderboard, "_BOARDS", [])
    write(results, tmp_path / "again")
    assert leaderboard._BOARDS == []  # nothing was ranked in this process
    for path in board.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "again" / path.relative_to(board)).read_bytes(), path.name
    pd.read_parquet(board / "scores.parquet").iloc[1:].to_parquet(board / "scores.parquet", index=False)
    with pytest.raises(IncompleteError, match=r"nb201 on .*: 1 of \d+ scores are missing, first"):
        verify(board)


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
    assert page.addresses
    beside = {path.name for path in board.iterdir()}
    assert all(address.startswith(("#", "data:")) or address in beside for address in page.addresses)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")  # a name, which no browser asks for
    assert page.rows.count(len(COLUMNS)) == 2 + 8 + 3
    # What seeds do, on both boards.
    assert text.count('<figure class="drawing"') == 2
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
    assert "rho is 0.99, but the scores give " in fault
    path.write_text("\n".join(lines[:-1]) + "\n")
    assert verify(board) == [f"leaderboard.csv has {len(lines) - 2} rows, but the scores give {len(lines) - 1}"]


def test_every_table_follows_from_the_scores(board: Path) -> None:
    columns = {"ablation": "networks", "agreement": "n", "curves": "share", "differences": "n", "seeds": "n"}
    for name, column in columns.items():
        with (board / f"{name}.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        rows[-1][column] = "77"
        (board / f"{name}.csv").write_text(as_csv(rows))
    faults = sorted(verify(board))
    assert [fault.partition(".csv, line ")[0] for fault in faults] == sorted(columns)
    assert all(f"{columns[fault.partition('.')[0]]} is 77, but the scores give" in fault for fault in faults)
    for name in columns:
        (board / f"{name}.csv").unlink()
    (board / "trends.csv").write_text("id\n")
    missing = [f"{name}.csv is missing, but the scores give such a table" for name in columns]
    assert sorted(verify(board)) == sorted([*missing, "trends.csv exists, but the scores give no such table"])


def test_what_no_leaderboard_writes_is_named(board: Path) -> None:
    for name in ("earlier", "entries"):
        (board / name).mkdir()
        (board / name / "notes.txt").write_text("")
    (board / ".hidden").write_text("")
    assert verify(board) == []
    (board / "more.csv").write_text("")
    (board / "scores").mkdir()
    assert verify(board) == [
        f"{name} is nothing that a leaderboard writes: move it elsewhere" for name in ("more.csv", "scores")
    ]


def test_an_altered_score_is_found(board: Path) -> None:
    def change(rows: pd.DataFrame) -> None:
        rows.loc[rows.index[rows["proxy"] == "naswot"], "value"] *= -1

    faults = altered(board, change)
    assert any("naswot of nb201: rho is" in fault for fault in faults)


def test_parameters_that_differ_between_seeds_are_found(board: Path) -> None:
    def change(rows: pd.DataFrame) -> None:
        rows.loc[rows.index[rows["proxy"] == "params"][0], "value"] += 1

    assert any("scores of params differ from what the space states" in fault for fault in altered(board, change))


def test_missing_scores_are_named(board: Path) -> None:
    pd.read_parquet(board / "scores.parquet").iloc[1:].to_parquet(board / "scores.parquet", index=False)
    with pytest.raises(IncompleteError, match=r"nb201 on .*: 1 of \d+ scores are missing, first .*: zcbench run"):
        verify(board)


def test_missing_parts_are_named(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "torn")
    next((tmp_path / "torn" / "scores").glob("*/*/*.parquet")).unlink()
    with pytest.raises(IncompleteError, match="scores are missing, first"):
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
    Store(tmp_path).create()
    for field in record["recipe"].keys() - {"content", "classes", "sample_of"}:  # older records have none
        recipe = {name: value for name, value in record["recipe"].items() if name != field}
        (tmp_path / "runs" / "r.json").write_text(json.dumps(record | {"recipe": recipe}))
        with pytest.raises(ResultsError, match=f"{field} is missing"):
            boards(tmp_path)
    (tmp_path / "runs" / "r.json").write_text(json.dumps(record | {"sizes": {"params": [1.0]}}))
    with pytest.raises(ResultsError, match="expected sizes of "):
        boards(tmp_path)


@pytest.mark.usefixtures("no_figures")
def test_the_command(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["leaderboard", "--results", str(results), "--out", out]) == 0
    # Before, it said 8 proxies: the baselines that no run scored were counted without a word.
    shown = capsys.readouterr().out
    assert "12 networks, 2 seeds, cifar10/analog-baseline: 6 proxies ranked; first is " in shown
    assert re.search(r"\(for comparison: macs -?\.?\d\.\d{3}, random -?\d\.\d{3}\)", shown)
    assert main(["leaderboard", "--out", out, "--verify"]) == 0
    (tmp_path / "out" / "leaderboard.csv").write_text("proxy\n")
    assert main(["leaderboard", "--out", out, "--verify"]) == 1
    capsys.readouterr()
    assert main(["leaderboard", "--out", out, "--verify", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)
    assert main(["leaderboard", "--results", str(results), "--out", out, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert {ranking["proxy"] for ranking in records[0]["rankings"]} >= {"params", "macs", "random"}
    assert main(["leaderboard", "--out", str(tmp_path / "none"), "--verify"]) == 2
    assert main(["leaderboard", "--results", str(tmp_path / "none"), "--out", out]) == 2
    assert "which does not exist" in capsys.readouterr().err


@pytest.mark.usefixtures("no_figures")
def test_what_changed_since_a_former_version_is_written_and_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    made(tmp_path / "r", {"exact": lambda truth, seed, size: truth, "odd": noisy})
    assert main(["leaderboard", "--results", str(tmp_path / "r"), "--out", out]) == 0
    assert not (tmp_path / "out" / "changes.csv").exists()
    # The former version is in the folder that is written, and nothing has changed.
    assert main(["leaderboard", "--results", str(tmp_path / "r"), "--out", out, "--since", out]) == 0
    assert not (tmp_path / "out" / "changes.csv").exists()
    assert "Nothing: every row is as it was." in (tmp_path / "out" / "index.html").read_text()
    # Of a version that is kept, the scores are enough.
    (tmp_path / "kept").mkdir()
    for name in ("boards.json", "scores.parquet"):
        shutil.copy(tmp_path / "out" / name, tmp_path / "kept" / name)
    kept = str(tmp_path / "kept")
    assert main(["leaderboard", "--results", str(tmp_path / "r"), "--out", out, "--since", kept]) == 0
    assert not (tmp_path / "out" / "changes.csv").exists()
    made(tmp_path / "new", {"exact": lambda truth, seed, size: -truth, "fresh": noisy}, versions={"exact": 2})
    assert main(["leaderboard", "--results", str(tmp_path / "new"), "--out", out, "--since", out]) == 0
    found = table(tmp_path / "out", "changes")
    assert found["proxy"].tolist() == ["exact", "fresh", "odd"]
    assert found["what"].tolist() == ["version", "new", "gone"]
    assert found.loc[0, ["tau_before", "tau_now", "change"]].astype(float).tolist() == [1.0, -1.0, -2.0]
    text = (tmp_path / "out" / "leaderboard.md").read_text()
    assert "## What changed since the former version" in text
    assert "| exact | version | 1.000 [ 1.00 1.00] | -1.000 [-1.00 -1.00] | -2.000 | 30 | 30 | 1 | 2 |" in text
    assert verify(tmp_path / "out") == []
    # A leaderboard that is made of another keeps what stands beside its scores.
    assert main(["leaderboard", "--results", out, "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "changes.csv").read_bytes() == (tmp_path / "out" / "changes.csv").read_bytes()
    (tmp_path / "out" / "changes.csv").write_text((tmp_path / "out" / "changes.csv").read_text().replace("gone", "new"))
    assert [fault.split(",")[0] for fault in verify(tmp_path / "out")] == ["changes.csv"]
    # Without a former version, what it gave is removed.
    assert main(["leaderboard", "--results", str(tmp_path / "new"), "--out", out]) == 0
    assert not (tmp_path / "out" / "changes.csv").exists()
    assert not (tmp_path / "out" / "beside.json").exists()


@pytest.mark.usefixtures("no_figures")
def test_failed_scores_are_counted_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, out = str(tmp_path / "r"), str(tmp_path / "out")
    # The three networks with the lowest accuracies have no score.
    holes = {
        "exact": lambda truth, seed, size: truth,
        "holes": lambda truth, seed, size: np.where(truth < 3, np.nan, truth),
    }
    made(tmp_path / "r", holes)
    assert main(["leaderboard", "--results", results, "--out", out]) == 0
    assert "scores failed" not in capsys.readouterr().err  # a NaN is what the definition gives
    made(tmp_path / "failed", holes, without="timeout")
    assert main(["leaderboard", "--results", str(tmp_path / "failed"), "--out", out]) == 0
    said = "zcbench: 3 scores failed and are not ranked: "
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "scores failed" in line]
    assert line == f"{said}zcbench results export scores.csv --results {tmp_path / 'failed'} has their messages"
    assert main(["leaderboard", "--results", out, "--out", out]) == 0
    assert f"{said}the column failures of {out}/leaderboard.csv counts them" in capsys.readouterr().err
    assert "timeout:3" in (tmp_path / "out" / "leaderboard.csv").read_text()


@pytest.mark.usefixtures("no_figures")
def test_an_edited_table_of_a_former_version_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, out, again = (str(tmp_path / name) for name in ("r", "out", "again"))
    made(tmp_path / "r", {"exact": lambda truth, seed, size: truth, "odd": noisy})
    assert main(["leaderboard", "--results", results, "--out", out]) == 0
    path = tmp_path / "out" / "leaderboard.csv"
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    capsys.readouterr()
    edits: list[list[dict[str, str]]] = [
        [row | ({"tau": "0.25"} if row["proxy"] == "exact" else {}) for row in rows],
        [row | ({"version": "7"} if row["proxy"] == "exact" else {}) for row in rows],
        [row for row in rows if row["proxy"] != "exact"],
        [*rows, rows[0] | {"proxy": "exact_too"}],
    ]
    for edited, said in zip(
        edits, ("tau 0.250 of 30", "version 7", "it says no row", "give no row for exact_too"), strict=True
    ):
        path.write_text(as_csv(edited))
        assert main(["leaderboard", "--results", results, "--out", again, "--since", out]) == 2
        error = capsys.readouterr().err
        assert "leaderboard.csv does not follow from its scores" in error
        assert said in error
    # Without its scores there is nothing to compare it with, and a line says so.
    (tmp_path / "out" / "boards.json").unlink()
    path.write_text(as_csv(edits[0]))
    assert main(["leaderboard", "--results", results, "--out", again, "--since", out]) == 0
    assert f"since: {out} has no scores, so its table is believed as it is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--since", "expected a folder that zcbench leaderboard wrote, got "),
        ("--searches", "expected a folder with the search.csv and search.json of zcbench search, got "),
        ("--programs", "expected a folder with program files of zcbench evolve, got "),
    ],
)
def test_what_cannot_stand_beside_the_scores_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, said: str
) -> None:
    assert (
        main(["leaderboard", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "o"), option, str(tmp_path)])
        == 2
    )
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error
    assert not (tmp_path / "o").exists()


@pytest.mark.usefixtures("no_figures")
def test_a_program_is_shown_with_its_rows(tmp_path: Path) -> None:
    program = Path(zcbench.__file__).parent / "docs" / "evolution" / "nb201" / "evolved-a2d1cd.json"
    made(tmp_path / "r", {"evolved-a2d1cd": lambda truth, seed, size: truth})
    out = tmp_path / "out"
    assert main(["leaderboard", "--results", str(tmp_path / "r"), "--out", str(out), "--programs", str(program)]) == 0
    text = (out / "index.html").read_text()
    assert "<b>1.000</b> [1.00 1.00], 30 networks" in text
    assert table(out, "programs")["program"].tolist() == ["evolved-a2d1cd"]
    assert verify(out) == []


def test_seeds_and_batch_sizes_are_an_ablation(tmp_path: Path) -> None:
    scores = {"noisy": noisy, "exact": lambda truth, seed, size: truth}
    recipe = made(tmp_path / "r", scores, seeds=(0, 1, 2), sizes=(1, 4, 16), name="made-up v7")
    write(tmp_path / "r", tmp_path / "out")
    assert verify(tmp_path / "out") == []
    found = table(tmp_path / "out", "ablation")
    assert set(found["title"]) == {"made-up v7"}
    assert set(found["board"]) == {"made on d, 30 networks, batches of 1 4 16, 3 seeds, d/test"}
    row = found[(found["proxy"] == "noisy") & (found["batch_size"] == 4)].iloc[0]
    taus = [stats.kendalltau(noisy(recipe.values, seed, 4), recipe.values).statistic for seed in (0, 1, 2)]
    assert row["tau"] == pytest.approx(np.mean(taus), rel=1e-12)
    assert row["tau_sd"] == pytest.approx(np.std(taus, ddof=1), rel=1e-9)
    # Three batch sizes of two proxies, and three baselines without any.
    assert len(found) == 2 * 3 + 3
    trends = table(tmp_path / "out", "trends")
    assert trends.query("proxy == 'noisy' and seed == 'mean'")["tau"].item() > 0
    assert (trends.query("proxy == 'exact'")["tau"] == 0).all()
    differences = table(tmp_path / "out", "differences")
    assert len(differences.query("kind == 'batch sizes'")) == 2 * 3
    # At each batch size, two proxies and three baselines.
    assert len(differences.query("kind == 'proxies'")) == 3 * 10
    agreement = table(tmp_path / "out", "agreement")
    assert agreement.groupby("kind").size().to_dict() == {"batch sizes": 6, "proxies": 30, "seeds": 3 * 9}
    text = (tmp_path / "out" / "ablation.md").read_text("utf-8")
    drawn = sorted(path.name for path in (tmp_path / "out" / "figures").iterdir())
    assert [name for name in drawn if "-batch-" in name] == [
        f"made-up-v7-{boards(tmp_path / 'r')[0].id}-batch-{proxy}.svg" for proxy in ("exact", "noisy")
    ]
    assert all(f"(figures/{name})" in text for name in drawn if "-batch-" in name or "-seeds" in name)
    assert "made-up v7 <small>made on d" in (tmp_path / "out" / "index.html").read_text("utf-8")


@pytest.mark.usefixtures("no_figures")
def test_the_seed_may_draw_the_networks(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        made(tmp_path / "r", {"noisy": noisy}, seeds=(seed,), first=25 * seed, when=str(seed), truth=range(25))
    write(tmp_path / "r", tmp_path / "out")
    assert verify(tmp_path / "out") == []
    found = table(tmp_path / "out", "ablation").set_index("proxy")
    assert len(set(found["id"])) == 1
    assert found.loc["noisy", "board"] == "made on d, 3 samples of 25 networks, each with a seed of its own, d/test"
    taus = [stats.kendalltau(noisy(np.arange(25.0), seed, 16), np.arange(25)).statistic for seed in (0, 1, 2)]
    assert found.loc["noisy", "tau_sd"] == pytest.approx(np.std(taus, ddof=1), rel=1e-9)
    assert found.loc["noisy", ["seeds", "networks", "coverage"]].tolist() == [3, 75, 1]
    assert found.loc["noisy", "seed_tau"] != found.loc["noisy", "seed_tau"]
    assert "samples of 25 networks" in (tmp_path / "out" / "index.html").read_text("utf-8")


@pytest.mark.usefixtures("no_figures")
def test_boards_on_the_same_networks_look_at_each_other(tmp_path: Path) -> None:
    here, there = np.random.RandomState(0).permutation(30), np.random.RandomState(1).permutation(30)
    made(tmp_path / "r", {"exact": lambda truth, seed, size: truth}, truth=here, dataset="d1", when="1")
    made(tmp_path / "r", {"exact": lambda truth, seed, size: truth}, truth=there, dataset="d2", when="2")
    write(tmp_path / "r", tmp_path / "out")
    assert verify(tmp_path / "out") == []
    found = table(tmp_path / "out", "transfer").query("proxy == 'exact'").set_index(["title", "truth"])
    assert len(found) == 4
    row = found.loc[f"made-d1 v{PROTOCOL}", "d2/test"]
    assert row["tau"] == pytest.approx(stats.kendalltau(here, there).statistic, rel=1e-12)
    assert row["best"] == there[np.argsort(-here)[:10]].max()
    kinds = table(tmp_path / "out", "agreement")["kind"]
    assert (kinds == "truths").sum() == 1
    assert (kinds == "data sets").sum() == 4
    assert "Boards that share networks" in (tmp_path / "out" / "index.html").read_text("utf-8")


def test_a_census_has_no_intervals_and_says_so(tmp_path: Path) -> None:
    recipe = made(tmp_path / "r", {"noisy": noisy}, seeds=(0, 1), sizes=(1, 2), resamples=0)
    (standing,) = write(tmp_path / "r", tmp_path / "out")
    assert verify(tmp_path / "out") == []
    found = table(tmp_path / "out", "leaderboard").set_index(["proxy", "batch_size"])
    taus = [stats.kendalltau(noisy(recipe.values, seed, 2), recipe.values).statistic for seed in (0, 1)]
    assert found.loc[("noisy", 2), "tau"] == pytest.approx(np.mean(taus), rel=1e-12)
    assert found["census"].all()
    assert found.filter(regex="^(?!rank).*(_low|_high)").isna().all(axis=None)
    assert (found["rank_low"] == found["rank_high"]).all()
    assert table(tmp_path / "out", "differences").filter(regex="_low|_p").isna().all(axis=None)
    # What is over seeds stays, because seeds are a sample.
    spreads = table(tmp_path / "out", "ablation").set_index(["proxy", "batch_size"])
    assert spreads.loc[("noisy", 2), "tau_sd_low"] > 0
    text = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "networks: all 30" in text
    assert "a census, without sampling intervals" in text
    shown = Console(width=80, file=io.StringIO(), record=True)
    shown.print(terminal(standing.rankings, "made up"))
    said = shown.export_text()
    assert "all 30 networks" in said
    assert "a census of the space" in said
    assert "[" not in said


@pytest.mark.parametrize(("count", "resamples"), [(0, 0), (15_624, 50)])
def test_a_study_of_a_whole_space_is_a_census(tmp_path: Path, count: int, resamples: int) -> None:
    config = StudyConfig(
        out=str(tmp_path),
        dataset="cifar10-samples",
        accuracy="analog-baseline",
        proxies=["params"],
        batch_sizes=[2],
        sample=count,
        resamples=50,
    )
    assert resolve(config).recipe.resamples == resamples


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_networks(tmp_path: Path, n: int) -> None:
    made(tmp_path / "r", {"noisy": noisy}, truth=range(n), seeds=(0, 1), sizes=(1, 2))
    (standing,) = write(tmp_path / "r", tmp_path / "out")
    assert len(standing.rankings) == 2 + 3
    assert verify(tmp_path / "out") == []
    found = table(tmp_path / "out", "ablation")
    assert found["networks"].tolist() == [n] * 5
    assert found["tau"].isna().all() == (n < 3)


@pytest.mark.usefixtures("no_figures")
def test_scores_that_say_nothing_stay_and_are_nan(tmp_path: Path) -> None:
    scores = {
        "noisy": noisy,
        "nothing": lambda truth, seed, size: np.full(len(truth), np.nan),
        "infinite": lambda truth, seed, size: np.full(len(truth), -np.inf),
        "constant": lambda truth, seed, size: np.ones(len(truth)),
        "holes": lambda truth, seed, size: np.where(truth < 5 + seed, np.nan, noisy(truth, seed, size)),
    }
    made(tmp_path / "r", scores, seeds=(0, 1), sizes=(4, 16))
    write(tmp_path / "r", tmp_path / "out")
    assert verify(tmp_path / "out") == []
    found = table(tmp_path / "out", "ablation").set_index("proxy")
    assert found.loc[["nothing", "infinite"], "coverage"].eq(0).all()
    assert found.loc["constant", "coverage"].eq(1).all()
    assert found.loc[["nothing", "infinite", "constant"], ["rho", "tau", "tau_sd", "seed_tau"]].isna().all(axis=None)
    assert found.loc["holes", "coverage"].to_numpy() == pytest.approx(1 - (5 + 6) / 60)
    assert found.loc["holes", "tau"].notna().all()
    differences = table(tmp_path / "out", "differences").query("kind == 'proxies' and batch_size == '4'")
    pairs = differences.set_index(["first", "second"])
    assert pairs.loc[("holes", "noisy"), "n"] == 25
    assert np.isnan(pairs.loc[("noisy", "nothing"), "tau_difference"])
    # Eight columns, every pair, whatever it says.
    assert len(pairs) == 8 * 7 // 2


@pytest.mark.usefixtures("no_figures")
def test_networks_without_accuracies(tmp_path: Path) -> None:
    made(tmp_path / "r", {"noisy": noisy}, truth=[np.nan] * 6, seeds=(0, 1))
    (standing,) = write(tmp_path / "r", tmp_path / "out")
    assert verify(tmp_path / "out") == []
    assert standing.rankings[0].correlation.n == 0
    assert table(tmp_path / "out", "ablation")["tau"].isna().all()


@pytest.mark.usefixtures("no_figures")
def test_of_two_versions_the_newer_run_counts_and_the_other_is_named(tmp_path: Path) -> None:
    made(tmp_path / "r", {"p": noisy, "q": noisy}, when="old")
    made(tmp_path / "r", {"p": lambda truth, seed, size: -truth}, when="tomorrow", versions={"p": 2})
    (board,) = boards(tmp_path / "r")
    assert board.recipe.versions == {"p": 2, "q": 1}
    assert board.superseded == ("p 1",)
    write(tmp_path / "r", tmp_path / "out")
    found = table(tmp_path / "out", "leaderboard").set_index("proxy")
    assert found.loc["p", "version"] == 2
    assert found.loc["p", "tau"] == pytest.approx(-1)
    assert "a newer run has another version: p 1" in (tmp_path / "out" / "index.html").read_text("utf-8")
    assert verify(tmp_path / "out") == []


def all_but_one(truth: np.ndarray, seed: int, size: int) -> np.ndarray:
    return np.where(np.arange(len(truth)) == 4, np.nan, np.arange(len(truth)))


@pytest.mark.usefixtures("no_figures")
def test_a_network_without_a_score_is_no_fault_of_its_size(tmp_path: Path) -> None:
    made(tmp_path / "r", {"params": all_but_one, "p": noisy})
    write(tmp_path / "r", tmp_path / "out")
    assert verify(tmp_path / "out") == []


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("name", ["leaderboard.md", "index.html"])
def test_a_figure_that_was_edited_for_people_is_found(tmp_path: Path, name: str) -> None:
    made(tmp_path / "r", {"p": noisy})
    write(tmp_path / "r", tmp_path / "out")
    path = tmp_path / "out" / name
    text = path.read_text("utf-8")
    place = text.index(".", text.index("p")) + 1
    while not text[place].isdigit():
        place += 1
    path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :], "utf-8")
    (fault,) = verify(tmp_path / "out")
    assert name in fault


@pytest.mark.usefixtures("no_figures")
def test_a_torn_part_is_named(tmp_path: Path) -> None:
    made(tmp_path / "r", {"noisy": noisy})
    (part,) = (tmp_path / "r" / "scores").rglob("*.parquet")
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(ResultsError, match="is torn") as caught:
        write(tmp_path / "r", tmp_path / "out")
    assert str(part) in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_figures")
def test_two_values_of_one_key_are_named(tmp_path: Path) -> None:
    made(tmp_path / "r", {"p": noisy})
    made(tmp_path / "r", {"p": noisy})
    write(tmp_path / "r", tmp_path / "out")  # the same rows twice are one
    made(tmp_path / "r", {"p": lambda truth, seed, size: truth})
    with pytest.raises(ResultsError, match="different values for one key"):
        write(tmp_path / "r", tmp_path / "out")


def test_a_leaderboard_with_a_key_twice_or_a_column_less_is_refused(board: Path) -> None:
    rows = pd.read_parquet(board / "scores.parquet")
    pd.concat([rows, rows.iloc[:2]]).to_parquet(board / "scores.parquet", index=False)
    with pytest.raises(ResultsError, match="expected one score per key, got 2 more"):
        verify(board)
    rows.drop(columns="seed").to_parquet(board / "scores.parquet", index=False)
    with pytest.raises(ResultsError, match="has no column seed"):
        verify(board)
    (board / "scores.parquet").write_bytes(b"PAR1")
    with pytest.raises(ResultsError, match=r"expected a leaderboard in .*, got none or a damaged one"):
        verify(board)
    (board / "boards.json").write_text("[]")
    rows.to_parquet(board / "scores.parquet", index=False)
    with pytest.raises(ResultsError, match="expected a list of boards"):
        verify(board)


def test_what_an_earlier_leaderboard_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made(tmp_path / "two", {"noisy": noisy}, seeds=(0, 1), sizes=(1, 4))
    made(tmp_path / "one", {"noisy": noisy})
    write(tmp_path / "two", out)
    own = out / "figures" / "mine.svg"
    own.write_text("<svg/>")
    (out / "notes.md").write_text("mine")
    assert (out / "ablation.md").exists()
    write(tmp_path / "one", out)
    assert verify(out) == ["notes.md is nothing that a leaderboard writes: move it elsewhere"]
    names = {path.name for path in out.iterdir()}
    assert not names & {"ablation.csv", "ablation.md", "seeds.csv", "trends.csv"}
    assert {"notes.md", "figures"} <= names
    assert own.exists()
    assert len(list((out / "figures").iterdir())) == 1 + 2


def test_tables_do_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "r", {"noisy": noisy}, seeds=(0, 1))
    write(tmp_path / "r", tmp_path / "with")
    monkeypatch.setattr(figures, "available", lambda: False)
    write(tmp_path / "r", tmp_path / "without")
    assert not (tmp_path / "without" / "figures").exists()
    for path in (tmp_path / "with").glob("*.csv"):
        assert path.read_bytes() == (tmp_path / "without" / path.name).read_bytes()
    page = (tmp_path / "without" / "index.html").read_text("utf-8")
    assert 'pip install "zcbench[report]"' in page
    assert 'class="drawing"' not in page
    assert "![" not in (tmp_path / "without" / "ablation.md").read_text("utf-8")


@pytest.mark.usefixtures("no_figures")
def test_a_name_given_by_a_run_stays(tmp_path: Path) -> None:
    made(tmp_path / "r", {"p": noisy}, name="mine\n<v1>", when="1")
    made(tmp_path / "r", {"q": noisy}, when="2")
    (board,) = boards(tmp_path / "r")
    assert board.title == "mine <v1>"
    write(tmp_path / "r", tmp_path / "out")
    assert "mine &lt;v1&gt;" in (tmp_path / "out" / "index.html").read_text("utf-8")
    assert dataclasses.replace(board, title="x").id == board.id
