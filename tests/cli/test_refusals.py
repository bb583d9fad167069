"""Wrong arguments are refused in plain words that name the option: no name of Python comes through."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[[list[str]], str]
#: Names of Python that a message to a user does not have.
PYTHON = re.compile(r"\w(Error|Exception)\b|<class|Errno|NoneType|__init__|Parser key|\btyping\b|\bUnion\b|\bNone\b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run --sample abc", "sample: expected a whole number, got abc"),
        ("run --workers null", "workers: expected a whole number, got null"),
        ("run --limit_s x", "limit_s: expected a number, got x"),
        ("run --representatives maybe", "representatives: expected true or false, got maybe"),
        ("run --precision float16", "precision: expected float32 or float64, got float16"),
        ("run --seeds {a:1}", "seeds: expected a list of whole numbers or a whole number, got "),
        ("run --batch_sizes [x]", "batch_sizes: expected a list of whole numbers or a whole number, got ['x']"),
        ("run --datamodule_args 5", "datamodule_args: expected names with values, got 5"),
        ("run --format xml", "format: expected table, csv, json, markdown, svg, got xml"),
        ("run --nothing 5", "unknown arguments: --nothing 5; see zcbench run --help"),
        ("run --proxies", "proxies: expected a value, got none; see zcbench run --help"),
        ("check --nothing", "see zcbench check --help"),
        ("nothing", "see zcbench --help"),
        ("run --proxies []", "proxies: expected at least one name, or all, got none"),
        ("rank own.py --proxies []", "proxies: expected at least one value, got none"),
        ("score --arch 0 --proxies []", "proxies: expected at least one value, got none"),
        ("run --smaple 15", "unknown arguments: --smaple 15: did you mean --sample?; see zcbench run --help"),
        ("run --results mine", "unknown arguments: --results mine: did you mean --out?"),
        ("rnu", "got rnu: did you mean run?"),
        ("evolve --config evolution/quickstar", "neither a file nor a known name: did you mean evolution/quickstart?"),
        (
            "evolve --explain evolved-1a4f0c",
            "such as results-evolution/programs/evolved-1a4f0c.json, got evolved-1a4f0c",
        ),
        ("run --proxies snip;naswot", "unknown proxy 'snip;naswot': names are separated by commas: snip,naswot"),
        ("run --proxies qqqq", "unknown proxy 'qqqq': if it is yours, name its file with --include; otherwise see"),
        ("run --sample -5", "sample: expected 1 to 15625 networks of nb201, or 0 for all, got -5"),
        (
            "run --batch_sizes [] --proxies params",
            "got 64, the batch size of the protocol of a proxy: give --batch_sizes",
        ),
        ("check --baseline folder", "baseline: expected a file in a folder that exists, got folder, which is a"),
        ("check --baseline folder --update --config check", "baseline: expected a file in a folder that exists, got "),
        (
            "check --baseline b.json --junit b.json",
            "baseline: expected a file of its own, got b.json, which is",
        ),
        ("check --baseline b.json --markdown wrong.yaml --include wrong.yaml", "which is that of include wrong.yaml"),
        (
            "check --baseline s.yaml --update --config s.yaml",
            "expected a file of its own, got s.yaml, which is that",
        ),
        ("check --baseline own.py --update --config check", "baseline: expected a name that ends in .json, got own.py"),
        (
            "check --baseline empty/b.json --update --config check",
            "baseline: expected a file that can be written, got empty/b.json, which cannot",
        ),
        ("check --baseline broken.json --update --config check", "broken.json is torn or not JSON"),
        (
            "check --baseline b.json --update --junit c.xml",
            "junit: expected a comparison, got --update, which makes",
        ),
        ("run --workers=", "workers: expected a whole number, got nothing"),
        ("evolve --seeds=", "seeds: expected a list of whole numbers or a whole number, got nothing"),
        ("run --engine.height_limit 65", "engine: expected a text, got settings by name"),
        ("run --proxies all,params", "proxies: expected all alone, or names, got all, params"),
        ("enter own.py --results binary", "results: expected a folder, got binary, which is a file"),
        ("check --baseline wrong.yaml", "got wrong.yaml: a study goes with --update --config wrong.yaml"),
        ("leaderboard --results binary", "expected a folder that zcbench run wrote, got binary, which is a file"),
        (
            "leaderboard --results nowhere",
            "expected a folder that zcbench run wrote, got nowhere, which does not exist",
        ),
        ("run --config wrong.yaml", "sample: expected a whole number, got many"),
        ("run --config unknown.yaml", "unknown arguments: nothing"),
        ("run --config several.yaml", "study 1 of 2: several.yaml: sample: expected a whole number, got x"),
        (
            "run --config missing.yaml",
            "config: cannot read missing.yaml (No such file or directory): expected a YAML file, or a name from ",
        ),
        ("run --config folder", "config: cannot read folder (Is a directory)"),
        ("run --config broken.yaml", "config: cannot read broken.yaml (line "),
        ("run --config binary", "config: cannot read binary (no text in UTF-8)"),
        ("run --config empty", "config: empty has no version, expected `version: 1` at its top"),
        ("run --include folder", "include: expected a Python file, got folder, which is a folder"),
        ("check", "expected --baseline, got none"),
        ("check --baseline list.json", "baseline: list.json is no baseline (a value is of another kind than expected)"),
        ("check --baseline broken.json", "broken.json is torn or not JSON (line 1, column 2 is no JSON)"),
        ("check-proxy", "expected FILE, got none"),
        ("check-proxy missing.py", "file: expected a Python file, got missing.py, which does not exist"),
        ("rank", "expected NETWORKS, got none"),
        ("score missing.json", "task (No such file or directory)"),
        ("list", "expected KIND (proxies, spaces, datasets, studies, searches), got none"),
        ("list nonsense", "kind: expected proxies, spaces, datasets, studies, searches, got nonsense"),
        ("results", "expected ACTION (show, verify, compact, export, import), got none"),
        ("data", "expected ACTION (list, where, get, verify), got none"),
        ("compare", "expected PROXY, got none"),
        ("leaderboard --results torn", "expected a leaderboard in torn, got none or a damaged one (line 1, column 2"),
        (
            "leaderboard --verify --out missing",
            "expected a leaderboard in missing, but there is no such folder: give",
        ),
        ("leaderboard --out binary", "out: expected a folder, got binary, which is a file"),
        ("enter own.py --out binary", "out: expected a folder, got binary, which is a file"),
        ("leaderboard --recompute -1", "recompute: expected 0 or more, got -1"),
        ("enter missing.py --to nowhere", "expected a leaderboard in nowhere, but there is no such folder"),
        ("evolve --engine.population x", "engine.population: expected a whole number, got x"),
        ("evolve --over nothing", "over: expected statistics, layers, ranks or logs, got nothing"),
        ("evolve --grounds 5", "grounds: expected a list of settings by name, got 5"),
        ("evolve --engine 5", "engine: expected settings by name, got 5"),
        ("search --population x", "population: expected a whole number, got x"),
        ("doctor --nothing", "unknown arguments: --nothing"),
        ("nonsense", "command: expected run, leaderboard, enter, "),
    ],
)
def test_refused_in_plain_words(arguments: str, message: str, refused: Refused) -> None:
    Path("folder").mkdir()
    Path("torn").mkdir()
    Path("torn/boards.json").write_text("[")
    Path("binary").write_bytes(bytes(range(128, 256)))
    for name, text in {
        "empty": "",
        "wrong.yaml": "version: 1\nsample: many\n",
        "unknown.yaml": "version: 1\nnothing: 5\n",
        "several.yaml": "version: 1\nstudies: [{sample: x}, {sample: 3}]\n",
        "broken.yaml": "version: 1\nspace: [\n",
        "list.json": json.dumps([1, 2]),
        "broken.json": "{",
    }.items():
        Path(name).write_text(text)
    line = refused(arguments.split())
    assert message in line
    assert not PYTHON.search(line), line


@pytest.mark.parametrize(
    "arguments",
    [
        "evolve --open []",
        "enter own.py --boards []",
        "compare snip --with []",
        "leaderboard --entries []",
        "leaderboard --searches []",
        "leaderboard --programs []",
    ],
)
def test_an_option_that_names_nothing_is_refused(arguments: str, refused: Refused) -> None:
    """Before, `evolve --open []` began a search, and the others did as if the option were absent."""
    Path("folder").mkdir()
    line = refused([*arguments.split(), *(["--results", "folder"] if arguments.startswith("compare") else [])])
    option = arguments.split()[-2].removeprefix("--")
    assert f"{option}: expected at least one value, got none: leave --{option} out or name some" in line


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("engine.population=1", "engine: expected generations >= 0, population >= 2"),
        ("engine.generations=-1", "engine: expected generations >= 0, population >= 2"),
        ("engine.tournament=0", "engine: expected generations >= 0, population >= 2"),
        ("engine.height_limit=65", "engine: expected a height_limit of at most 64, got 65"),
        ("pool=1", "pool: expected 3 or more networks"),
        ("seeds=[]", "seeds, batch_sizes: expected at least one of each"),
        ("workers=0", "workers: expected 1 or more, got 0"),
    ],
)
def test_a_search_that_cannot_be_is_refused_before_torch_is_loaded(
    option: str, said: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zcbench.evolution.study.search", None)  # its import would raise
    assert said in refused(["evolve", f"--{option}"])
