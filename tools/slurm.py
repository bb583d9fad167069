"""A SLURM of this machine alone, and one study that runs on it in every way that docs/cluster.md names.

    python -m zcbench.tools.slurm [CASE ...]

It needs slurmctld, slurmd and munged (on Debian and Ubuntu: apt-get install slurm-wlm munge), the extra `cluster`, and
to be root. Two nodes with two CPUs each stand on one machine. Every case prints its exit status and whether its results
folder holds the scores of a plain run, to the last digit. All is taken down at the end, whatever happens.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ..bench.scoring.parts import KEY
from ..bench.scoring.store import Store

STUDY = "--sample 12 --batch_sizes 4 --proxies params,snip,naswot,synflow --tracker none"
LONG = STUDY.replace("12", "60")
#: Seconds that a case may take.
PATIENCE_S = 300.0

#: States of a job that SLURM does not start again.
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY"}

CONFIGURATION = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
# A job that is queued again waits as long as a credential is valid.
AuthInfo=socket={folder}/munge.socket,cred_expire=10
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
MpiDefault=none
ReturnToService=2
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{second}] CPUs=2
PartitionName=cpu Nodes=ALL Default=YES MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=10 PreemptMode=OFF
"""


@contextmanager
def slurm(folder: Path) -> Iterator[None]:
    """Run a SLURM of two nodes, which the commands of this process see."""
    port = _free_ports()
    settings = {"folder": folder, "host": socket.gethostname(), "port": port, "first": port + 1, "second": port + 2}
    for name in ("state", "spool-n1", "spool-n2"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**settings))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    places = [f"--{name}={folder / f'munge.{end}'}" for name, end in _MUNGE.items()]
    with ExitStack() as stack:
        for command in (
            ["munged", "--foreground", "--force", *places],
            ["slurmctld", "-D"],
            ["slurmd", "-D", "-N", "n1"],
            ["slurmd", "-D", "-N", "n2"],
        ):
            stack.enter_context(_daemon(command, folder))
            time.sleep(1)
        _until(lambda: said("sinfo -h -t idle -o %D").strip() == "2", "nodes that are idle")
        try:
            yield
        finally:
            with suppress(subprocess.SubprocessError):
                said("scancel --user=root")
                _until(lambda: not said("squeue -h"), "an empty queue")


_MUNGE = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}


@contextmanager
def _daemon(command: list[str], folder: Path) -> Iterator[None]:
    with (folder / "daemons.out").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _free_ports() -> int:
    """Return the first of three ports that are free."""
    for port in range(16817, 26817, 3):
        with ExitStack() as stack, suppress(OSError):
            for each in range(port, port + 3):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", each))
            return port
    raise SystemExit("no three ports are free")


def _until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"expected {what} within {PATIENCE_S:g} s")
        time.sleep(0.1)


def said(command: str) -> str:
    """Return what a shell command prints."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return done.stdout


class Outcome(NamedTuple):
    """How a case ended: its command, its exit status or the state of its job, and what its job met."""

    command: str
    status: str
    met: str = ""


def plain(command: str) -> Outcome:
    """Run a command in the foreground."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return Outcome(command, str(done.returncode), "" if done.returncode == 0 else done.stderr[-500:])


def batch(options: str, script: str) -> Outcome:
    """Submit a script and wait for its job."""
    Path("job.sh").write_text(f"#!/bin/bash\n{script}\n")
    outcome = plain(f"sbatch --wait {options} job.sh")
    return outcome._replace(command=f"{outcome.command}: {script}")


def disturbed(out: str, options: str, script: str, *disturbances: str) -> Outcome:
    """Submit a script, disturb its job when there are scores, and wait until it is done."""
    Path("job.sh").write_text(f"#!/bin/bash\n{script}\n")
    command = f"sbatch --requeue --parsable --open-mode=append --output={out}.log {options} job.sh"
    job = said(command).strip()
    _until(lambda: list((Path(out) / "scores").rglob("*.parquet")), "scores")
    before = len(
        pd.concat([pd.read_parquet(part, partitioning=None) for part in (Path(out) / "scores").rglob("*.parquet")])
    )
    for disturbance in disturbances:
        said(disturbance.format(job=job))
    _until(lambda: _state(job)[0] in ENDED, "a job that ends")
    state, starts = _state(job)
    text = " && ".join([command.replace(" --parsable", ""), *disturbances]).format(job=job)
    return Outcome(f"{text}: {script}", state, f"started {int(starts) + 1} times, disturbed after {before} scores")


def _state(job: str) -> tuple[str, str]:
    fields = dict(word.partition("=")[::2] for word in said(f"scontrol show job {job} --oneliner").split())
    return fields["JobState"], fields["Restarts"]


def case_srun() -> Outcome:
    """One task with two CPUs."""
    return plain(f"srun -n 1 -c 2 zcbench run {STUDY} --workers 2 --out srun")


def case_sbatch() -> Outcome:
    """A script without srun."""
    return batch("--cpus-per-task=2", f"zcbench run {STUDY} --workers $SLURM_CPUS_PER_TASK --out sbatch")


def case_array() -> Outcome:
    """An array of three jobs that share one folder."""
    return batch("--array=1-3", f"zcbench run {STUDY} --out array")


def case_tasks() -> Outcome:
    """Two tasks of one job that share one folder."""
    return plain(f"srun -N 2 -n 2 zcbench run {STUDY} --out tasks")


def case_requeue() -> Outcome:
    """A job that goes back to the queue in the middle."""
    return disturbed("requeue", "", f"zcbench run {STUDY} --out requeue", "scontrol requeue {job}")


def case_preemption() -> Outcome:
    """A job that must leave its node for one of another partition."""
    script = f"zcbench run {LONG} --out preemption"
    return disturbed("preemption", "--partition=cpu", script, "srun --partition=urgent -N 2 -c 2 true")


TIME = f"""#SBATCH --signal=TERM@120
srun zcbench run {STUDY} --out time
status=$?
[ $status != 143 ] || scontrol requeue $SLURM_JOB_ID
exit $status"""


def case_time() -> Outcome:
    """A script that queues itself again when SLURM says with SIGTERM that its time is nearly over."""
    return disturbed("time", "", TIME, "scancel --signal=TERM {job}")


def case_term() -> Outcome:
    """A job that SIGTERM ends; the same script, submitted again, goes on."""
    script = f"zcbench run {STUDY} --out term"
    first = disturbed("term", "", script, "scancel --signal=TERM --full {job}")
    second = batch("", script)
    return Outcome(f"{first.command}; {second.command}", f"{first.status} {second.status}", first.met)


RAY = f"""head=$(scontrol show hostnames | head -n 1)
export RAY_ADDRESS=$(hostname --ip-address | cut -d ' ' -f 1):6379
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(openssl rand -hex 32)
options="--num-cpus=$SLURM_CPUS_PER_TASK --disable-usage-stats --block"
srun -N 1 -n 1 -w $head ray start --head --port=6379 --include-dashboard=false $options &
until ray status; do sleep 2; done
srun -N 1 -n 1 -x $head ray start --address=$RAY_ADDRESS $options &
zcbench run {STUDY} --engine ray --workers 4 --out ray"""


def case_ray() -> Outcome:
    """Ray on the two nodes of a job."""
    script = f"{RAY}\nstatus=$?\nray status | grep -c ' node_' > nodes\nexit $status"
    outcome = batch("--nodes=2 --ntasks-per-node=1 --cpus-per-task=2 --output=ray.log", script)
    return outcome._replace(met=f"Ray had {Path('nodes').read_text().strip()} nodes")


def case_variables() -> Outcome:
    """The variables of a job around a run that SLURM has not started."""
    names = {"NTASKS": "1", "JOB_NAME": "job", "JOB_ID": "77", "PROCID": "0", "LOCALID": "0", "NODEID": "0"}
    variables = " ".join(f"SLURM_{name}={value}" for name, value in names.items())
    return plain(f"env {variables} zcbench run {STUDY} --workers 2 --out variables")


def case_cluster() -> Outcome:
    """Jobs that zcbench submits."""
    arguments = """--cluster slurm --cluster_args '{"jobs": 2, "time": 10, "partition": "cpu"}'"""
    outcome = plain(f"zcbench run {STUDY} --out cluster {arguments}")
    _until(lambda: not said("squeue -h"), "an empty queue")
    return outcome


def case_cluster_time() -> Outcome:
    """A job that zcbench submits, whose time is over in the middle."""
    command = f"zcbench run {STUDY} --out cluster_time --cluster slurm"
    job = said(command).strip()
    _until(lambda: list(Path("cluster_time", "scores").rglob("*.parquet")), "scores")
    said(f"scancel --signal=USR2 {job}")
    _until(lambda: _state(job)[0] in ENDED, "a job that ends")
    state, starts = _state(job)
    return Outcome(f"{command} && scancel --signal=USR2 {job}", state, f"started {int(starts) + 1} times")


@functools.cache
def expected(study: str) -> pd.DataFrame:
    """Return the scores of a plain run."""
    out = "plain-long" if study == LONG else "plain"
    assert plain(f"zcbench run {study} --out {out}").status == "0"
    return _scores(Store(Path(out)))


def same(out: str, wanted: pd.DataFrame) -> str:
    """Say whether a folder holds the expected scores, and how many were computed more than once."""
    store = Store(Path(out))
    found = _scores(store)
    written = sum(len(pd.read_parquet(part, partitioning=None)) for part in store.parts())
    return f"{'same' if found.equals(wanted) else 'NOT the same'}, {written - len(found)} of {len(found)} twice"


def _scores(store: Store) -> pd.DataFrame:
    rows = pd.concat([pd.read_parquet(part, partitioning=None) for part in store.parts()])
    once = rows.drop_duplicates(list(KEY)).sort_values(list(KEY), ignore_index=True)
    return once[[*KEY, "value", "status", "message"]]


def main(wanted: list[str]) -> int:
    """Run the cases that are named, or all; return 1 if one of them is not as expected."""
    cases = {name.removeprefix("case_"): case for name, case in globals().items() if name.startswith("case_")}
    if lacking := [name for name in ("munged", "slurmctld", "slurmd", "ray") if not shutil.which(name, path=_path())]:
        raise SystemExit(f"expected {lacking[0]} on this machine: apt-get install slurm-wlm munge, extra `cluster`")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="zcbench-slurm-") as name, ExitStack() as stack:
        work = Path(name) / "work"
        (work / "bin").mkdir(parents=True)
        os.environ["PATH"] = f"{work / 'bin'}:{_path()}"
        program = work / "bin" / "zcbench"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m zcbench "$@"\n')
        program.chmod(0o755)
        stack.callback(os.chdir, Path.cwd())
        os.chdir(work)
        stack.enter_context(slurm(Path(name)))
        for case in wanted or cases:
            started = time.monotonic()
            try:
                outcome = cases[case]()
                verdict = same(case, expected(LONG if LONG in outcome.command else STUDY))
            except Exception as error:  # the other cases say something still
                outcome, verdict = Outcome("", "", ""), f"NOT the same: {type(error).__name__}: {error}"
            good = verdict.startswith("same") and outcome.status in {"0", "COMPLETED", "FAILED 0"}
            wrong += not good
            facts = "; ".join(filter(None, [outcome.met, f"{time.monotonic() - started:.0f} s"]))
            command = textwrap.indent(outcome.command, "    ")
            sys.stdout.write(f"{case}: status {outcome.status}; {verdict}; {facts}\n{command}\n")
            sys.stdout.flush()
    return min(wrong, 1)


def _path() -> str:
    """Return the search path of commands, which begins where this Python has its own."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
