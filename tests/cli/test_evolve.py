"""The command line of searches, on NAS-Bench-201 with images and accuracies from two small packages."""

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from zcbench.__main__ import main
from zcbench.evolution.study.found import Found
from zcbench.proxies import AGGREGATES, PROXIES

EZNAS_A = "frobenius(sigmoid(logdet(sign(T1G_D))))"
SEARCH = f"""
version: 1
grounds:
  - {{space: nb201, dataset: cifar10-samples, accuracy: analog-baseline}}
pool: 6
draw: 4
test: 4
engine: {{generations: 2, population: 8, parents: 4, max_height: 4, start: ["{EZNAS_A}"]}}
tracker: none
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    before = dict(PROXIES._items), dict(AGGREGATES._items)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZCBENCH_DATA", str(tmp_path / "data"))
    yield
    PROXIES._items, AGGREGATES._items = before


def run(*arguments):
    """Run a command that has to succeed; return what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(list(arguments)) == 0, err.getvalue()
    if "json" not in " ".join(arguments):
        assert max(map(len, [*out.getvalue().splitlines(), ""])) <= 100
    return out.getvalue(), err.getvalue()


def refused(*arguments):
    """Run a command that has to fail as a user error; return its one line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(list(arguments)) == 2
    assert out.getvalue() == ""
    (line,) = err.getvalue().splitlines()
    assert line.startswith("zcbench: ")
    assert len(line) < 500
    assert not Path("evolution-results").exists()
    return line


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A search on eleven networks, and what it printed."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "search.yaml").write_text(SEARCH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZCBENCH_DATA", str(folder / "data"))
        patch.delenv("COLUMNS", raising=False)  # pytest-xdist may set it
        before = dict(PROXIES._items)
        printed = run("evolve", "--config", str(folder / "search.yaml"), "--out", str(folder / "out"))
        PROXIES._items = before
    return folder, printed


def test_evolve_prints_programs_and_their_test(found):
    folder, (tables, notes) = found
    assert "3 generations in" in tables
    assert "nb201 on cifar10-samples: 4 networks, seed 0" in tables
    assert EZNAS_A in tables  # with which it began
    names = {path.stem for path in (folder / "out" / "programs").iterdir()}
    assert len(names) == 3
    assert names <= set(re.findall(r"evolved-[0-9a-f]{6}", tables))
    assert "best.svg" in notes
    assert "generations: 0/3" in notes  # progress, where there is no terminal


def test_evolved_again_nothing_is_computed_anew(found):
    folder, (tables, _) = found
    again, notes = run("evolve", "--config", str(folder / "search.yaml"), "--out", str(folder / "out"))
    # All but the milliseconds, which are not measured again either.
    assert again == tables
    assert "all 3 generations are there already: nothing is evolved anew" in notes
    assert "collecting" not in notes
    assert "scoring" not in notes


def test_programs_as_json(found):
    folder, _ = found
    printed, _ = run("evolve", "--config", str(folder / "search.yaml"), "--out", str(folder / "out"), "--json")
    (made,) = json.loads(printed)
    assert {each["name"] for each in made["programs"]} == {path.stem for path in (folder / "out/programs").iterdir()}
    assert all(Found(**{k: v for k, v in each.items() if k != "format"}).tree() for each in made["programs"])


def test_what_was_found_scores_a_network_and_a_study(found):
    folder, _ = found
    file = sorted((folder / "out" / "programs").iterdir())[0]
    name = file.stem
    printed, _ = run(
        "score", "--program", str(file), "--proxies", "[params]", "--arch", "6111", "--batch_size", "1", "--json"
    )
    scores = {s["proxy"]: s for s in json.loads(printed)["scores"]}
    assert set(scores) == {"params", name}
    assert scores[name]["status"] == "ok"
    options = ["--sample", "3", "--batch_sizes", "[1]", "--proxies", "[params]", "--tracker", "none"]
    printed, _ = run("run", *options, "--program", str(file), "--format", "json")
    assert {record["proxy"] for record in json.loads(printed)} == {"params", name}
    listed, _ = run("list", "proxies", "--include", str(file), "--json")
    assert name in {card["name"] for card in json.loads(listed)}


def test_an_aggregate_that_was_found_goes_with_a_study():
    Found(name="both", program="mul(params, naswot)", over="ranks").write(Path("both.json"))
    options = ["--sample", "6", "--batch_sizes", "[2]", "--proxies", "[params]", "--tracker", "none"]
    printed, _ = run("run", *options, "--program", "both.json", "--format", "json")
    assert {"both", "params", "naswot"} >= {record["proxy"] for record in json.loads(printed)} >= {"both", "params"}
    Path("aggregates.yaml").write_text(
        "version: 1\nover: ranks\ngrounds: [{space: nb201, dataset: cifar10-samples}]\n"
        "proxies: [params]\ntracker: none\n"
    )
    assert "only 6 of 6 networks" in refused("evolve", "--config", "aggregates.yaml")


def test_searches_are_listed():
    printed, _ = run("list", "searches")
    listed = json.loads(run("list", "searches", "--json")[0])
    assert {"evolution/quickstart", "evolution/eznas"} <= {record["name"] for record in listed}
    assert all(record["name"] in printed for record in listed)
    assert all(set(record) == {"name", "what", "file"} for record in listed)
    assert not any(r["name"].startswith("evolution/") for r in json.loads(run("list", "studies", "--json")[0]))


def test_several_searches_of_a_file_run_one_after_the_other(found):
    folder, _ = found
    text = SEARCH.replace("test: 4", f"test: 0\nstatistics: {folder / 'out' / 'statistics'}")
    text = text.replace("generations: 2, population: 8", "generations: 1, population: 4")
    Path("two.yaml").write_text(f"{text}studies: [{{out: a}}, {{out: b, sign: same}}]\n")
    tables, _ = run("evolve", "--config", "two.yaml")
    assert tables.count("2 generations in") == 2
    assert Path("a/hall.parquet").exists()
    assert Path("b/hall.parquet").exists()


def test_explain_of_a_text():
    printed, _ = run("evolve", "--explain", EZNAS_A, "--draws", "5", "--figure", "x.svg")
    assert printed.startswith("frobenius\n└─ sigmoid\n   └─ logdet\n      └─ sign\n         └─ T1G_D\n")
    assert "5 random tensors" in printed
    assert "frobenius" in {element.text for element in ET.parse("x.svg").getroot().iter()}


def test_explain_of_a_file():
    Found(name="mine", program="numel(T1_D)", to_scalar="l2").write(Path("mine.json"))
    printed, _ = run("evolve", "--explain", "mine.json", "--draws", "3")
    rows = [line.split() for line in printed.splitlines()]
    assert ["size", "3", "16", "32", "16384", "0", "100%"] in rows
    Found(name="both", program="mul(params, naswot)", over="logs").write(Path("both.json"))
    printed, _ = run("evolve", "--explain", "both.json", "--figure", "both.svg")
    assert printed == "mul\n├─ params\n└─ naswot\n"
    assert {"mul", "params", "naswot"} <= {element.text for element in ET.parse("both.svg").getroot().iter()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--explain", "frobenus(T3)"], "unknown terminal or operation 'frobenus': did you mean frobenius"),
        (["--explain", "mean(T1GD)"], "did you mean T1G_D"),
        (["--explain", "add(T3)"], "add takes 2 arguments, got 1"),
        (["--explain", "det(mean(T3))"], "det"),
        (["--explain", "mean(T3"], "expected"),
        (["--explain", ""], "program: expected a text"),
        (["--explain", "mean(T3)\nx"], "program"),
        (["--explain", "√(T3)"], "expected ASCII"),
        (["--explain", "abs(" * 65 + "T3" + ")" * 65], "higher than the limit of 64"),
        (["--explain", "abs(" * 10_000 + "T3" + ")" * 10_000], "higher than the limit of 64"),
        (["--explain", "abs(" * 100_000], "expected at most 100000"),
        (["--explain", "absent.json"], "absent.json"),
        (["--explain", "mean(T3)", "--draws", "0"], "draws: expected 1 or more"),
        (["--explain", "mean(T3)", "--draws", "x"], "draws"),
        (["--explain", "mean(T3)", "--figure", "x.png"], r"ends in \.svg"),
        (["--figure", "x.svg"], "figure: expected --explain"),
        (["--explain", "mean(T3)", "--json"], "json: expected a search"),
        (["--config", "absent.yaml"], "absent.yaml"),
        (["--config", "evolution/nothing"], "evolution/nothing"),
        (["--pool", "many"], "pool"),
        (["--pol", "8"], "pol"),
        (["--collection", "all"], "collection"),
        (["--over", "scores"], "over"),
        (["--engine.seeds", "1"], "seeds"),
        (["--version", "2"], "version: expected 1, got 2"),
        ([], r"cifar10.* get|data"),  # the default search reads CIFAR-10, which is not there
        (["--over", "ranks"], "results: expected a folder that zcbench run wrote, got results, which does not exist"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_fault_is_one_line(arguments, words):
    assert re.search(words, refused("evolve", *arguments))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("version: 2", "version"),
        ("pool: [1]", "pool"),
        ("grounds: nb201", "grounds"),
        ("grounds: [{space: nb201, data: cifar10}]", "'data' is not accepted"),
        ("grounds: [{space: nb2011, dataset: cifar10-samples}]", "did you mean nb201"),
        ("engine: {population: few}", "population"),
        ("engine: {colour: red}", "colour"),
        ('engine: {start: ["mean(T9)"]}', "T9"),
        ("test: 16000", "15625 networks"),
        ("colour: red", "colour"),
        ("pool: [", "cannot read"),
    ],
)
def test_a_fault_in_a_file_is_one_line(change, words):
    name = change.partition(":")[0]
    skipped = (name, "  - ") if name == "grounds" else name
    lines = [line for line in SEARCH.splitlines() if not line.startswith(skipped)]
    Path("bad.yaml").write_text("\n".join([*lines, change]))
    assert words in refused("evolve", "--config", "bad.yaml")


def test_a_figure_that_cannot_be_written_is_a_fault(capsys):
    Path("file").touch()
    assert main(["evolve", "--explain", "mean(T3)", "--draws", "2", "--figure", "file/x.svg"]) == 2
    assert "figure: cannot write to file/x.svg" in capsys.readouterr().err


def test_another_search_in_the_folder_is_a_fault(found, capsys):
    folder, _ = found
    arguments = ["evolve", "--config", str(folder / "search.yaml"), "--out", str(folder / "out")]
    assert main([*arguments, "--engine.seed", "7"]) == 2
    assert re.search(r"holds another search \(engine differ\): choose another folder", capsys.readouterr().err)


def test_help_explains_every_option_and_loads_no_torch():
    script = (
        "import sys; from zcbench.__main__ import main\n"
        "try: main(['evolve', '--help'])\n"
        "finally: assert 'torch' not in sys.modules"
    )
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    for option in ("--config", "--pool", "--engine.population", "--explain", "--figure", "--sign"):
        assert option in printed
