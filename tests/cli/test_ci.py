"""The workflow of docs/ci: what it says is what Actions takes, and its check runs as written."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
import zcbench
from zcbench.__main__ import COMMANDS, main
from zcbench.bench.report.check import as_markdown
from zcbench.bench.results.regress import Finding
from zcbench.cli.parser import main_parser, parse
from zcbench.datasets.files.registry import sources

FOLDER = Path(zcbench.__file__).parent / "docs" / "ci"
STUDY = """
version: 1
space: nb201
dataset: cifar10-samples
accuracy: analog-baseline
proxies: [params, conv_count]
sample: 12
batch_sizes: [2]
resamples: 50
"""


@pytest.fixture
def job() -> dict[str, Any]:
    workflow = yaml.safe_load((FOLDER / "proxies.yml").read_text("utf-8"))
    assert set(workflow) == {"name", True, "jobs"}  # YAML 1.1 reads `on` as true, and Actions does not
    assert set(workflow[True]) == {"pull_request", "push"}
    found: dict[str, Any] = workflow["jobs"]["check"]
    assert set(found) == {"runs-on", "timeout-minutes", "env", "steps"}
    return found


def commands(job: dict[str, Any]) -> list[list[str]]:
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("zcbench ")]


def test_every_step_runs_a_script_or_a_pinned_action(job: dict[str, Any]) -> None:
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step)
        assert set(step) <= {"name", "run", "uses", "with", "if"}
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])


def test_the_cached_folder_is_the_data_folder(job: dict[str, Any]) -> None:
    (cache,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/cache@")]
    assert cache["with"]["path"] == job["env"]["ZCBENCH_DATA"]
    names = [words[2] for words in commands(job) if words[:2] == ["data", "get"]]
    assert names
    assert set(names) <= set(sources())
    assert all(name in cache["with"]["key"] for name in names)


def test_every_command_is_one_of_ours(job: dict[str, Any]) -> None:
    found = commands(job)
    assert [words[0] for words in found] == ["data", "data", "data", "check"]
    for words in found:
        assert parse(main_parser(COMMANDS, "0"), words)


def test_the_page_names_the_study_that_the_gate_needs() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    (study,) = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    Path("study.yaml").write_text("\n".join(line.removeprefix("   ") for line in study.splitlines()))
    (given,) = parse(main_parser(COMMANDS, "0"), ["run", "--config", "study.yaml"])
    assert (given.space, given.dataset, given.accuracy, given.sample) == ("nb201", "cifar10", "test-200", 100)


def test_the_gate_runs_as_the_workflow_has_it(job: dict[str, Any], tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    (tmp_path / "proxies").mkdir()
    (tmp_path / "proxies" / "study.yaml").write_text(STUDY)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "zcbench"
    program.write_text(f'#!{bash}\nexec {shlex.quote(sys.executable)} -m zcbench "$@"\n')
    program.chmod(0o755)
    assert main(["check", "--baseline", "proxies/baseline.json", "--update", "--config", "proxies/study.yaml"]) == 0
    (script,) = [step["run"] for step in job["steps"] if "zcbench check" in step.get("run", "")]
    settings = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }

    def gate() -> int:
        # Actions runs a script by bash -e.
        return subprocess.run([bash, "-e", "-c", script], env=settings, capture_output=True, check=False).returncode

    assert gate() == 0
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert "### zcbench check: 2 same" in summary
    assert "| params | 2 | same |" in summary
    assert "<testsuite" in (tmp_path / "check.xml").read_text("utf-8")
    document = json.loads(Path("proxies/baseline.json").read_text("utf-8"))
    for score in document["scores"]:
        if score["proxy"] == "params":
            score["values"] = [2 * value for value in score["values"][::-1]]
    Path("proxies/baseline.json").write_text(json.dumps(document))
    assert gate() == 1
    added = (tmp_path / "summary.md").read_text("utf-8").removeprefix(summary)
    assert "**regressed**" in added


def test_the_summary_is_whole_markdown() -> None:
    found = [
        Finding("a|b", 16, "regressed", "rho <fell>", rho=(0.8, 0.7), tau=(0.6, 0.5)),
        Finding("snip", 0, "same", "", rho=(0.5, 0.5), tau=(float("nan"), float("nan"))),
    ]
    lines = as_markdown(found, "b.json: 3 networks", "zcbench check --update").splitlines()
    assert lines[0] == "### zcbench check: 1 regressed, 1 same"
    assert "| a\\|b | 16 | **regressed** | .800 -> .700 | .600 -> .500 | rho &lt;fell> |" in lines
    assert "| snip | 0 | same | .500 |  |  |" in lines
    todo = (
        "not meant: undo the change; meant: raise the version of a\\|b, run `zcbench check --update`, commit the file."
    )
    assert todo in lines
    assert "commit" not in as_markdown(found[1:], "b.json", "zcbench check --update")


def test_a_summary_in_a_folder_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--baseline", "b.json", "--markdown", "nowhere/summary.md"]) == 2
    assert "markdown: expected a file in a folder that exists" in capsys.readouterr().err
