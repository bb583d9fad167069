"""The Python code of documents runs, their commands parse, their links lead somewhere, and their numbers are so."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import zcbench
from torch import nn
from zcbench.__main__ import COMMANDS
from zcbench.cli.parser import main_parser, parse, settings
from zcbench.evolution.search.asks import METHODS
from zcbench.evolution.search.config import SearchConfig
from zcbench.evolution.search.search import resolve_search
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.proxies.probe import Probe

ROOT = Path(zcbench.__file__).parent
FLAGS = re.MULTILINE | re.DOTALL
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(document: str, language: str = "python") -> list[str]:
    text = (ROOT / document).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, FLAGS)


def commands(path: Path) -> Iterator[list[str]]:
    """Return the words of every `zcbench` command in the blocks of a document, without what a shell does with it."""
    waiting = ""
    for line in path.read_text("utf-8").splitlines():
        found = re.match(r"(?: {4,}(?:- run: |srun [-\w ]*?)?)(zcbench .*)", line)
        if not waiting and not found:
            continue
        waiting += (found[1] if not waiting and found else line).removesuffix("\\") + "\n"
        try:
            words = shlex.split(waiting, comments=True)
        except ValueError:  # a quotation goes on in the next line
            continue
        if line.endswith("\\"):
            continue
        waiting = ""
        end = next((at for at, word in enumerate(words) if word in {">", "|"}), len(words))
        yield [word for word in words[1:end] if word != "…"]
    assert not waiting


def net() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


def test_the_page_on_own_proxies_runs(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    # Dataclasses look their module up.
    names: dict[str, object] = {"__name__": __name__}
    for block in blocks("docs/own_proxies.md"):
        exec(compile(block, "docs/own_proxies.md", "exec"), names)
    examples = [name for name in PROXIES if name.startswith("x_")]
    assert len(examples) == 10
    scores = zcbench.score(net(), *batch, proxies=["worst_layer", "share_on", "snip", *examples])
    assert {score.status for score in scores.values()} == {"ok"}
    found = Probe(net(), *batch).read(names["LogitsWithoutWeights"]())  # type: ignore[operator]
    assert found.shape == (8, 10)
    assert not found.any()


def test_the_page_on_own_networks_runs() -> None:
    names: dict[str, object] = {"__name__": __name__}
    for block in blocks("docs/own_networks.md"):
        exec(compile(block, "docs/own_networks.md", "exec"), names)
    assert sorted(names["networks"]) == ["width 16", "width 4", "width 8"]  # type: ignore[call-overload]
    assert names["ranked"].order("params") == ["large", "small"]  # type: ignore[attr-defined]


def test_the_registries_of_the_reference_run() -> None:
    (block,) = blocks("docs/api.md")
    names: dict[str, object] = {"__name__": __name__}
    exec(compile(block, "docs/api.md", "exec"), names)
    assert names["scores"]["naswot"].status == "ok"  # type: ignore[index]


def test_the_proxy_of_the_readme_runs(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    (block,) = [block for block in blocks("README.md") if "@register" in block]
    exec(compile(block, "README.md", "exec"), {"__name__": "a_document"})
    assert zcbench.score(net(), *batch, proxies=["worst_layer"])["worst_layer"].status == "ok"


def test_the_data_module_of_the_page_on_images_runs() -> None:
    (block,) = blocks("docs/own_images.md")
    names: dict[str, object] = {"__name__": "a_document"}
    exec(compile(block, "docs/own_images.md", "exec"), names)
    made = names["Blobs"]()  # type: ignore[operator]
    assert zcbench.score(net(), datamodule=made, batch_size=16, proxies=["snip"])["snip"].status == "ok"


def test_every_name_of_the_table_can_be_read() -> None:
    text = (ROOT / "docs" / "own_proxies.md").read_text("utf-8")
    lines = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    names = {name for line in lines for name in re.findall(r"[A-Z][A-Za-z]+", line)}
    assert len(names) > 12
    assert [name for name in names if not hasattr(zcbench.proxies.passes, name)] == []


#: What stands for something else in the commands of documents.
STAND_INS = {"STUDY": ["--config", "quickstart"], "$SLURM_CPUS_PER_TASK": ["2"]}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_parse(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "configs" / "quickstart.yaml", "my_study.yaml")
    for words in commands(path):
        given = [new for word in words for new in STAND_INS.get(word, [word])]
        parse(main_parser(COMMANDS, "", only=given[0]), given)


def test_there_are_commands_and_a_wrong_one_is_found() -> None:
    # Counted by hand: four lines for the board, two for a space, four for a proxy, one for models, two for a gate.
    assert len(list(commands(ROOT / "README.md"))) == 13
    with pytest.raises(zcbench.errors.ConfigError, match="proxis"):
        parse(main_parser(COMMANDS, "", only="run"), ["run", "--proxis", "snip"])


def test_every_search_method_has_a_row_with_a_command_that_runs_it() -> None:
    """The README leads to the table. Each command parses and is ready to run, and its method is that of the row."""
    pytest.importorskip("bayes_opt")
    assert "(docs/search/README.md#methods)" in (ROOT / "README.md").read_text("utf-8")
    text = (ROOT / "docs/search/README.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| .+ \| `zcbench (search .+)` \|$", text, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(METHODS)
    for name, command in rows:
        (parsed,) = parse(main_parser(COMMANDS, "", only="search"), shlex.split(command))
        runs = resolve_search(settings(SearchConfig, parsed, workers=1)).runs
        assert name in {run.method for run in runs}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text("utf-8"), flags=FLAGS)
    targets = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [target for target in targets if target and not (path.parent / target).exists()] == []


def test_the_page_on_spaces_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "my_space"))
    (block,) = blocks("docs/own_spaces.md")
    names: dict[str, object] = {"__name__": "a_document"}
    exec(compile(block, "docs/own_spaces.md", "exec"), names)
    space = names["TestMySpace"]().make()  # type: ignore[operator]
    text = (ROOT / "docs" / "own_spaces.md").read_text("utf-8")
    lines = len((ROOT / "docs" / "my_space" / "my_space.py").read_text("utf-8").splitlines())
    assert f"Its {space.size}\nnetworks" in text
    assert f"a file of {lines} lines" in text


def test_the_numbers_of_the_readme_are_so() -> None:
    """How many proxies and aggregates there are, how many reference values, and how many proxies have none."""
    rows = [line.split("|") for line in (ROOT / "docs/parity.md").read_text("utf-8").splitlines() if line[:2] == "| "]
    values = np.asarray([(int(row[4]), "float64" in row[3]) for row in rows if row[4].strip().isdigit()])
    (without,) = re.findall(r"^Without reference values,.*?^$", (ROOT / "docs/parity.md").read_text("utf-8"), FLAGS)
    named = set(re.findall(r"`([\w.]+)`", without)) & set(PROXIES)
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"with {len(PROXIES)} proxies and variants, and with {len(AGGREGATES)} aggregates" in text
    assert f"{len(named)} of the proxies have no reference values" in text
    assert f"of {values[:, 0].sum():,} reference values" in text
    assert f"{(values[:, 0] * values[:, 1]).sum()} are in float64" in text
    differ = sum(int(row[4]) for row in rows if row[1].strip() == "eznas_a" and "float64" in row[3])
    agree = (values[:, 0] * values[:, 1]).sum() - differ
    assert f"Of these, {agree} agree to round-off. The other {differ} are those of `eznas_a`" in text
    overview = (ROOT / "docs/board/overview.csv").read_text("utf-8").splitlines()
    board = {row["proxy"] for row in csv.DictReader(overview)}
    assert board == {*PROXIES, *AGGREGATES, "random"}
    assert "It ranks all proxies and aggregates, and random scores on 11 boards" in text
    boards = [found["recipe"] for found in json.loads((ROOT / "docs/board/boards.json").read_text("utf-8"))]
    sampled = {name: count for recipe in boards for name, count in recipe["sample_of"].items()}
    whole = {name for recipe in boards for name in {*recipe["versions"]} - {*recipe["sample_of"]}}
    few = {name: count for name, count in sampled.items() if name not in whole}  # on no board all networks
    words = {6: "Six of the proxies"}[len(few)]
    seconds = [float(row["ms"]) / 1000 for row in csv.DictReader(overview) if row["proxy"] in few]
    cost = f"take {min(seconds):.1f} to {max(seconds):.1f} s for a network, the median over the boards"
    assert f"{words} {cost}, so they are measured on the first 200 networks or fewer" in text
    assert max(few.values()) <= 200
    more = [{n: k for n, k in recipe["sample_of"].items() if n not in few} for recipe in boards]
    assert sorted(len(own) for own in more if own) == [4, 5, 5, 5, 5, 5]
    assert {min(counts := [k for own in more for k in own.values()]), max(counts)} == {20, 120}
    assert (
        "On six boards of large networks, four or five more have scores of the first 20 to 120 networks alone" in text
    )
    assert {name for recipe in boards for name in {*few} - {*recipe["versions"]}} == {"vkdnw", "vkdnw.as_released"}
    assert "and `vkdnw` not on every board" in text


def test_the_round_of_six_spaces_says_what_its_files_say() -> None:
    document = (ROOT / "docs/evolution/README.md").read_text("utf-8")
    section = document.partition("### Fifth round")[2].partition("\n### ")[0]
    rows = [[cell.strip(" *`") for cell in line.split("|")[2:-1]] for line in section.splitlines() if "| ." in line]
    spaces = ["nb201", "nb_macro", "darts_trained", "nb301", "nb101", "tnb101_micro"]
    files = [json.loads(path.read_text("utf-8")) for path in (ROOT / "docs/evolution/fifth/programs").glob("*.json")]
    assert len(files) == 5
    for file in files:
        opened = {space: [record for record in file["openings"] if record["space"] == space] for space in spaces}
        taus = [opened[space][0]["tau"] for space in spaces]
        least = file["recipe"]["least"]
        numbers = [least["tau"], least["validation tau"], *taus, min(taus)]
        assert [file["name"], *(f"{value:.3f}"[1:] for value in numbers)] in rows
        assert f"`{file['name']}`: `{file['program']}`" in section
        for rival in opened["nb201"][0]["against"]:
            taus = [opened[space][0]["against"][rival]["tau"] for space in spaces]
            row = [rival, "", "", *("" if tau is None or math.isnan(tau) else f"{tau:.3f}"[1:] for tau in taus)]
            assert [*row, "" if "" in row[3:] else min(row[3:])] in rows
    lowest = {row[0]: row[-1] for row in rows if row[-1]}
    best = [max(tau for name, tau in lowest.items() if name.startswith("evolved-") is own) for own in (True, False)]
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"a τ of {best[0]} or more on each of six spaces" in readme
    assert f"Of eight strong proxies, the best has {best[1]} where it is worst." in readme


def test_programs_on_the_boards_are_said_as_the_table_has_them() -> None:
    with (ROOT / "docs/evolution/fifth/cross.csv").open(encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    document = " ".join((ROOT / "docs/evolution/README.md").read_text("utf-8").split())
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    boards = {(cell["space"], cell["dataset"]) for cell in cells}
    published = json.loads((ROOT / "docs/board/boards.json").read_text("utf-8"))
    assert boards == {(board["recipe"]["space"], board["recipe"]["dataset"]) for board in published}
    last = {("tnb101_micro", "noise-class_object"), ("tnb101_micro", "noise-jigsaw")}
    taus = {name: {} for name in dict.fromkeys(cell["proxy"] for cell in cells)}
    for cell in cells:
        taus[cell["proxy"]][cell["space"], cell["dataset"]] = float(cell["tau"] or "nan")
    grounds = {cell["proxy"]: len(cell["evolved"].split()) for cell in cells}
    nine = {name: min(tau for board, tau in own.items() if board not in last) for name, own in taus.items()}
    assert sum(nine[name] >= 0.47 for name, count in grounds.items() if count == 6) == 4
    known = {name: nine[name] for name, count in grounds.items() if not count}
    assert max(known, key=known.__getitem__) == "apd"
    assert round(known["apd"], 2) == 0.41
    for name in ("evolved-d06fc0", "meco.opt"):
        cell = next(c for c in cells if (c["proxy"], c["dataset"]) == (name, "noise-jigsaw"))
        tau, low, high = (float(cell[column]) for column in ("tau", "tau_low", "tau_high"))
        assert f"`{name}` has .{tau * 1000:.0f} [{low:+.3f} {high:+.3f}]".replace("0.", ".") in document
        assert f".{tau * 1000:.0f} [{low:.3f} {high:.3f}]".replace("0.", ".") in readme
        assert cell["networks"] == "24"
    least = [f"{min(taus[name].values()):.3f}"[1:] for name in ("evolved-828a96", "meco.opt")]
    assert f"lowest τ of `evolved-828a96` is {least[0]}, and that of `meco.opt` is {least[1]}" in document


def test_the_glossary_is_in_order_and_says_everything_once() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs/glossary.md").read_text("utf-8"), FLAGS)
    assert words == sorted(set(words), key=str.lower)
