from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonargparse import Namespace
from zcbench.__main__ import COMMANDS, main
from zcbench.cli.parser import Parser, main_parser, parse
from zcbench.cli.run import study_config
from zcbench.errors import ConfigError


@pytest.fixture
def parser() -> Parser:
    return main_parser(COMMANDS, "0.0")


def run(parser: Parser, *arguments: str) -> list[Namespace]:
    return parse(parser, ["run", *arguments])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_is_explained_by_a_sentence(command: str, parser: Parser) -> None:
    for action in parser.commands[command]._actions:
        text = action.help or ""
        if action.help == argparse.SUPPRESS or action.dest in {"help", "print_config", "engine"}:
            continue
        assert text[:1].isupper() or text.startswith("MODULE:FACTORY"), (action.dest, text)
        assert text.endswith("."), (action.dest, text)
        assert not text.startswith(("Of ", "The same", "That ")), (action.dest, text)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_result_is_there_as_json(command: str, parser: Parser) -> None:
    assert "--json" in parser.commands[command].format_help()


def test_settings_of_a_study_stand_over_those_of_the_file_and_arguments_over_both(parser: Parser) -> None:
    Path("several.yaml").write_text(
        "version: 1\nsample: 5\nbatch_sizes: [2]\nseeds: [1]\nstudies:\n- {sample: 6}\n- {sample: 7, seeds: [2]}\n"
    )
    found = run(parser, "--config", "several.yaml", "--batch_sizes", "[3]")
    assert [(each.sample, each.seeds, each.batch_sizes) for each in found] == [(6, [1], [3]), (7, [2], [3])]
    found = run(parser, "--seeds", "9", "--config", "several.yaml", "--sample", "8")
    assert [(each.sample, each.seeds) for each in found] == [(8, 9), (8, 9)]


def test_a_named_configuration_replaces_the_default_one(parser: Parser) -> None:
    assert run(parser)[0].dataset == "cifar10-samples"
    Path("mine.yaml").write_text("version: 1\nsample: 5\n")
    (mine,) = run(parser, "--config=mine.yaml")
    assert (mine.sample, mine.dataset, mine.accuracy, mine.batch_sizes) == (5, "cifar10", "default", [])


def test_what_is_given_is_known(parser: Parser) -> None:
    assert run(parser)[0].given == set()
    assert {"sample", "workers"} <= {
        name.partition(".")[0] for name in run(parser, "--sample", "3", "--workers", "2")[0].given
    }


@pytest.mark.parametrize(
    ("former", "message"),
    [
        (["--trainer.devices", "2"], "trainer.devices: expected workers, and device for a GPU, its name"),
        (["--trainer.strategy=ddp"], "trainer.strategy: expected workers, and device for a GPU, its name"),
        (["--devices", "2"], "devices: expected workers, its name"),
    ],
)
def test_names_of_earlier_versions_say_the_present_one(parser: Parser, former: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        run(parser, *former)


def test_one_configuration_is_named_at_most(parser: Parser) -> None:
    with pytest.raises(ConfigError, match=r"^config: expected one configuration, got 2$"):
        run(parser, "--config", "quickstart", "--config=check")


def test_what_is_printed_is_what_runs(parser: Parser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(parser, "--print_config", "--sample", "3")
    printed = capsys.readouterr().out
    assert "sample: 3" in printed
    assert "accuracy: analog-baseline" in printed


def test_of_several_studies_it_is_said_that_the_first_is_printed(
    parser: Parser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(parser, "--config", "board", "--print_config")
    output = capsys.readouterr()
    assert "space: nb201\ndataset: cifar10\n" in output.out
    assert output.err == "zcbench: this is the first of the 11 studies that --config names\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sample: null", "sample: expected a value, got null"),
        ("trainer: {devices: 2}", "trainer: expected workers, and device for a GPU, its name in this version"),
        ("config: quickstart", "names another configuration: expected settings alone"),
        ("studies: [{sample: 2}, {bogus: 1}]", "study 2 of 2: .*bogus"),
    ],
)
def test_faults_in_a_configuration_name_their_place(parser: Parser, content: str, message: str) -> None:
    Path("faulty.yaml").write_text(f"version: 1\n{content}\n")
    with pytest.raises(ConfigError, match=message):
        study_config(run(parser, "--config", "faulty.yaml")[0])


@pytest.mark.parametrize("arguments", [["--sample", "x"], ["--worker", "1"], ["--proxies"], ["extra"]])
def test_errors_are_of_the_user(parser: Parser, arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"see zcbench run --help$"):
        run(parser, *arguments)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_completes_commands_and_names(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--completion", shell])
    assert end.value.code in {0, None}
    script = capsys.readouterr().out
    for word in (
        "leaderboard",
        "--sample_seed",
        "naswot.as_released",
        "nb_macro",
        "leaderboards/nb201",
        "evolution/eznas",
    ):
        assert word in script, word


def test_bash_completes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    with pytest.raises(SystemExit):
        main(["--completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    asked = (
        "source ./script; complete -p zcbench | grep -q -- '-F _shtab_zcbench'; "
        "COMP_WORDS=(zcbench {}); COMP_CWORD={}; _shtab_zcbench; echo ${{COMPREPLY[@]}}"
    )
    for words, expected in (("lea", "leaderboard"), ("list stu", "studies"), ("compare vot", "vote")):
        command = [bash, "-c", asked.format(words, len(words.split()))]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [expected]


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--completion", "ksh"]) == 2
    assert "completion: expected bash, zsh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["evolve", "--config", "quickstart"],
            "quickstart is a study for zcbench run: expected a search for",
        ),
        (
            ["search", "--config", "evolution/nb201"],
            "evolve: expected a search for zcbench search",
        ),
        (["run", "--config", "search/quickstart"], "is a search for zcbench search: expected a study for"),
        (
            ["check", "--baseline", "b.json", "--update", "--config", "evolution/eznas"],
            "expected a study for zcbench run",
        ),
    ],
    ids=str,
)
def test_a_configuration_of_another_command_is_named(
    arguments: list[str], text: str, refused: Callable[[list[str]], str]
) -> None:
    assert text in refused(arguments)
