"""Jobs of SLURM, without SLURM: the commands that submit and start jobs are two scripts, the rest is as it is there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import zcbench
from zcbench.__main__ import main
from zcbench.bench.scoring.parts import KEY
from zcbench.cli.submit import Command, submit
from zcbench.errors import ConfigError

pytest.importorskip("submitit", reason="needs the extra `cluster`")

TINY = ["run", "--sample", "3", "--batch_sizes", "2", "--proxies", "params,naswot", "--tracker", "none"]
#: Runs every job of an array at once; `--array=0-1%2` says how many there are.
SBATCH = r"""#!/bin/bash
case "$(cat "$1")" in
    *nowhere*) echo "sbatch: error: invalid partition specified: nowhere" >&2; exit 1 ;;
esac
cp "$1" submitted
last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\).*/\1/p' submitted)
for n in $(seq 0 ${last:-0}); do
    if [ -n "$last" ]; then export SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_ID=$n; fi
    SLURM_JOB_ID=77 bash submitted >> ../printed 2>&1 &
done
echo "Submitted batch job 77"
"""
#: Leaves its own options out: they end with `--cpus-per-task`.
SRUN = """#!/bin/bash
while [[ $1 != --cpus-per-task=* ]]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that jobs run in."""
    commands, work = tmp_path / "bin", tmp_path / "work"
    commands.mkdir()
    work.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN)):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "zcbench").symlink_to(Path(zcbench.__file__).parent)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "package"))
    monkeypatch.chdir(work)
    return work


def scores(folder: str) -> pd.DataFrame:
    parts = (Path(folder) / "scores").rglob("*.parquet")
    rows = pd.concat([pd.read_parquet(part, partitioning=None) for part in parts]).drop_duplicates(list(KEY))
    return rows.sort_values(list(KEY), ignore_index=True)[[*KEY, "value", "status"]]


def printed(jobs: int) -> str:
    """Return what jobs have printed when they are done."""
    deadline = time.monotonic() + 120
    while (text := Path("../printed").read_text()).count("Exiting after successful completion") < jobs:
        assert time.monotonic() < deadline, text
        time.sleep(0.1)
    return text


def test_jobs_share_one_folder(slurm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--workers",
        "2",
        "--cluster",
        "slurm",
        "--cluster_args",
        '{"jobs": 2, "qos": "long", "exclusive": true}',
    ]
    assert main([*TINY, *arguments]) == 0
    output = capsys.readouterr()
    assert output.out.split() == ["77_0", "77_1"]
    assert "the same command without --cluster prints the table" in output.err
    submitted = Path("submitted").read_text()
    for option in ("--array=0-1%2", "--qos=long", "--exclusive", "--cpus-per-task=2", "--time=60"):
        assert f"#SBATCH {option}\n" in submitted
    assert printed(2).count("naswot") == 2
    assert main([*TINY, "--out", "alone"]) == 0
    pd.testing.assert_frame_equal(scores("results"), scores("alone"), check_exact=True)


def test_a_job_of_a_study_for_gpus_is_submitted_where_there_is_none(slurm: Path) -> None:
    words = [*TINY, "--device", "cuda", "--cluster=slurm", "--cluster_args", '{"gpus_per_node": 1}']
    assert main(words) == 0
    assert "#SBATCH --gpus-per-node=1\n" in Path("submitted").read_text()


def test_a_command_ends_with_its_status_and_starts_again_as_it_is() -> None:
    with pytest.raises(SystemExit) as stop:
        Command(("run", "--sample", "0.5"))()
    assert stop.value.code == 2
    again = Command(("list", "spaces")).checkpoint()
    assert again.function == Command(("list", "spaces"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"jobs": 0}', "expected a whole number from 1 for jobs, got 0"),
        ('{"time": "1h"}', "expected a whole number from 1 for time, got 1h"),
        ('{"nodelist": ["a"]}', "expected a text or a number for nodelist, got ['a']"),
        ('{"partition": "nowhere"}', "sbatch refuses the jobs (sbatch: error: invalid partition specified: nowhere)"),
        ("4", "cluster_args"),
    ],
)
def test_jobs_that_cannot_be(slurm: Path, given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--cluster", "slurm", "--cluster_args", given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"expected sbatch and srun of SLURM on this machine, got none"):
        submit(["run"], {}, 1, tmp_path)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ConfigError, match=r"expected submitit for slurm, got none .*pip install 'zcbench\[cluster\]'"):
        submit(["run"], {}, 1, tmp_path)


def test_a_study_that_is_wrong_is_not_submitted(refused: Callable[[list[str]], str]) -> None:
    assert "unknown proxy" in refused(["run", "--proxies", "nosuch", "--cluster", "slurm"])
