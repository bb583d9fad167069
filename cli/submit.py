"""A study as jobs of SLURM: each is the same command, and all write to one results folder."""

from __future__ import annotations

import contextlib
import io
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, one_line

#: Minutes that a job runs before it goes back to the queue, unless `time` says otherwise.
TIME = 60
#: Number of times that a job goes back to the queue because its time is over.
REQUEUES = 10


@dataclass(frozen=True)
class Command:
    """A command of zcbench, as a job runs it.

    Attributes:
        words: What stands after `zcbench`.
    """

    words: tuple[str, ...]

    def __call__(self) -> None:
        """Run the command, and end with its exit status.

        Raises:
            SystemExit: The exit status is not 0.
        """
        # The command is a process of its own, which SIGUSR2 would kill: the signal says to this one that time is short.
        before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        with subprocess.Popen([sys.executable, "-m", "zcbench", *self.words]) as process:
            signal.signal(signal.SIGUSR2, before)
            try:
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
        if status:
            sys.exit(status if status > 0 else 128 - status)

    def checkpoint(self) -> Any:
        """Return what goes on from here when the job starts again: the same command."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def submit(words: Sequence[str], given: Mapping[str, Any], workers: int, folder: Path) -> list[str]:
    """Submit a command as jobs of SLURM and return their ids.

    Args:
        words: What stands after `zcbench`.
        given: `jobs`, the number of jobs, `time`, the minutes of each, and any option of sbatch by name.
        workers: Number of CPUs of a job.
        folder: Folder of what the jobs print.

    Raises:
        ConfigError: submitit is not installed, this machine has no sbatch, or sbatch refuses.
    """
    options = dict(given)
    jobs, minutes = (_positive(name, options.pop(name, default)) for name, default in (("jobs", 1), ("time", TIME)))
    if wrong := [name for name, value in options.items() if not isinstance(value, (str, int, float))]:
        raise ConfigError(f"cluster_args: expected a text or a number for {wrong[0]}, got {options[wrong[0]]}")
    try:
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError
    except ImportError as error:
        raise ConfigError(
            f"cluster: expected submitit for slurm, got none ({one_line(str(error))}): pip install 'zcbench[cluster]'"
        ) from None
    if not all(map(shutil.which, ("sbatch", "srun"))):
        raise ConfigError("cluster: expected sbatch and srun of SLURM on this machine, got none: log in where they are")
    cpus = options.setdefault("cpus_per_task", workers)
    executor = SlurmExecutor(folder, max_num_timeout=REQUEUES)
    executor.update_parameters(
        job_name="zcbench",
        time=minutes,
        stderr_to_stdout=True,
        additional_parameters=options,
        # srun no longer takes this number from sbatch, and gives a task one CPU.
        srun_args=[f"--cpus-per-task={cpus}"],
    )
    try:
        # submitit prints what sbatch says, too.
        with contextlib.redirect_stderr(io.StringIO()), executor.batch():
            submitted = [executor.submit(Command(tuple(words))) for _ in range(jobs)]
    except (FailedJobError, FailedSubmissionError, OSError) as error:
        raise ConfigError(f"cluster: sbatch refuses the jobs ({one_line(str(error))[-300:]})") from None
    return [job.job_id for job in submitted]


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"cluster_args: expected a whole number from 1 for {name}, got {value}")
    return value
