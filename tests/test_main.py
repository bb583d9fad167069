from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from zcbench.__main__ import main


def test_help_is_quick_and_loads_no_torch() -> None:
    script = (
        "import sys; from zcbench.__main__ import main\n"
        "try: main(['run', '--help'])\n"
        "finally: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", "zcbench", "--help"], check=True, capture_output=True)
    assert time.monotonic() - start < 5  # 0.2 s on an idle machine; the bound only catches an import of torch


def test_no_command_prints_the_help_and_a_wrong_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    for command in ("run", "leaderboard", "check", "score", "list", "data", "evolve"):
        assert re.search(rf"^    {command}  ", shown, re.MULTILINE)
    assert main(["fly"]) == 2
    assert "zcbench --help" in capsys.readouterr().err


def test_a_full_disk_is_one_line() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "zcbench", "list", "studies"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(r"zcbench: .*No space left on device; what is finished is kept\n", done.stderr)


def test_a_terminal_without_greek_letters_shows_question_marks(tmp_path: Path) -> None:
    """Before: UnicodeEncodeError, since the table has a rho in its head."""
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    command = [sys.executable, "-m", "zcbench", "run", "--sample", "3", "--proxies", "params", "--batch_sizes", "[2]"]
    done = subprocess.run(
        [*command, "--tracker", "none"], cwd=tmp_path, env=plain, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert b"Spearman ?" in done.stdout


COLOUR = re.compile(r"\x1b\[(?:\d+;)*[34]\d")


@pytest.mark.parametrize("command", [["list", "proxies"], ["doctor"], ["data", "list"]], ids=" ".join)
def test_no_color_and_pipes_are_respected(command: list[str]) -> None:
    def shown(**variables: str) -> str:
        settings = {**os.environ, "COLUMNS": "80"} | variables
        for name in ("NO_COLOR", "FORCE_COLOR"):
            if name not in variables:
                settings.pop(name, None)
        given = [sys.executable, "-m", "zcbench", *command]
        return subprocess.run(given, env=settings, capture_output=True, text=True, check=False).stdout

    plain = shown()
    assert plain
    assert "\x1b" not in plain  # a pipe gets text alone
    assert not COLOUR.search(shown(FORCE_COLOR="1", NO_COLOR="1"))


def test_a_closed_stream_ends_no_command() -> None:
    """Before, a command whose standard error was closed ended with status 1 and no word."""
    command = f"exec {shlex.quote(sys.executable)} -m zcbench compare snip --results nowhere 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False, capture_output=True).returncode == 2
