"""Spaces, data sets and proxies of the user's own; the example of the documentation is one of them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from zcbench import plugins
from zcbench.__main__ import main
from zcbench.errors import ConfigError
from zcbench.plugins import load
from zcbench.spaces import SPACES, Space
from zcbench.spaces.contract import SpaceContract

EXAMPLE = Path(__file__).parent.parent / "docs" / "my_space" / "my_space.py"


class TestMySpace(SpaceContract):
    def make(self) -> Space:
        load([EXAMPLE])
        return SPACES["my_space"](None)


SCRIPT = """
import multiprocessing, sys
from zcbench.__main__ import main
from zcbench.engine import local

if __name__ == "__main__":
    local._context = lambda: multiprocessing.get_context(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_study_of_an_included_space(tmp_path: Path, start: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", start, "run", "--include", str(EXAMPLE), "--space", "my_space"]
    options = ["--dataset", "cifar10-samples", "--batch_sizes", "[2]", "--proxies", "[params,macs]", "--sample", "9"]
    workers = ["--workers", "2", "--tracker", "none", "--format", "csv"]
    done = subprocess.run(
        [*command, *options, *workers], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("my_space,cifar10-samples,cifar10/test-1,") == 2


def test_an_included_space_is_listed_and_scored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "spaces", "--include", str(EXAMPLE), "--json"]) == 0
    assert '"name": "my_space"' in capsys.readouterr().out
    for architecture in ("4-4-16", "2"):
        score = ["score", "--include", str(EXAMPLE), "--space", "my_space", "--arch", architecture]
        assert main([*score, "--proxies", "[params]", "--json"]) == 0
        # 3 x 3 x (3 x 4 + 4 x 4 + 4 x 16) weights, 24 biases, 2 x 24 of norms, 170 of the classifier.
        assert '"value": 1070.0' in capsys.readouterr().out


def test_installed_packages_are_found_by_their_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebodys_proxies.py").write_text("seen = []\nseen.append(1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = EntryPoints([EntryPoint("mine", "somebodys_proxies", plugins.MODULES)])
    monkeypatch.setattr(plugins, "entry_points", lambda group: found.select(group=group))
    load()
    load()
    assert sys.modules["somebodys_proxies"].seen == [1]
    (tmp_path / "somebodys_fault.py").write_text("raise RuntimeError('not today')")
    found = EntryPoints([EntryPoint("bad", "somebodys_fault", plugins.MODULES)])
    with pytest.raises(ConfigError, match=r"^entry point bad = somebodys_fault fails: RuntimeError: not today$"):
        load()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.py", None, "expected a Python file, got "),
        ("space.txt", "", "expected a Python file"),
        ("my-space.py", "", "expected a Python file whose name is an identifier"),
        ("json.py", "", "has the name of another module .*: rename the file"),
        ("faulty_syntax.py", "def", "faulty_syntax.py fails: SyntaxError"),
        ("faulty_run.py", "1 / 0", "faulty_run.py fails: ZeroDivisionError: division by zero"),
        ("faulty_import.py", "import zcbench_no_such", "fails: ModuleNotFoundError: No module named 'zcbench_no_such'"),
        (
            "faulty_twice.py",
            "from zcbench.spaces import SPACES\nSPACES.add('nb201', SPACES['nb201'])",
            "fails: ValueError: space 'nb201' is registered twice",
        ),
    ],
)
def test_bad_files_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=rf"^include: .*{message}"):
        load([path])
    assert main(["list", "spaces", "--include", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
