"""Workers on the machines of a Ray cluster. Each is a `Workers` of one process, so jobs end there as they end here."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ..errors import ConfigError, ResultsError, one_line
from .local import TRIES, Ended, Limits, Status, Workers

J = TypeVar("J")
R = TypeVar("R")

#: Seconds within which one worker at least has to start.
START_S = 120.0
#: Seconds within which a cluster has to answer.
KNOCK_S = 10.0


class ClusterWorkers:
    """Workers on a Ray cluster, each with one CPU and perhaps a share of a GPU; machines may come and go.

    Args:
        address: Address of a running cluster, `HOST:PORT`; empty for the one that RAY_ADDRESS names, or else for one
            that lives on this machine as long as this process.
        count: Number of workers. Those that the cluster has no room for start when there is room.
        prepare: Function that every worker process calls first.
        args: Arguments of `prepare`.
        limits: What one job may take.
        gpus: Share of a GPU that a worker has, 0 for none.

    Raises:
        ConfigError: Ray is not installed, or there is no cluster at the address.
    """

    def __init__(
        self,
        address: str,
        count: int,
        prepare: Callable[..., None],
        *args: object,
        limits: Limits | None = None,
        gpus: float = 0.0,
    ) -> None:
        self._ray = _started(address, count)
        self.count = count
        # The cluster keeps one copy, which the workers of a machine share.
        self._given = self._ray.put((prepare, args, limits or Limits(), str(Path.cwd())))
        self._host = self._ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0, max_concurrency=2)(_Host)
        self._ready: list[Any] = []
        self._is_open = True

    def run(self, function: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Ended[J, R]]:
        """Yield every job as it ends, in any order; whoever is free takes the next one.

        Args:
            function: Module-level function.
            jobs: Jobs, the longest first. One is taken from them when a worker is free for it.

        Raises:
            ResultsError: Workers cannot be started.
        """
        rest = iter(jobs)
        waiting: deque[tuple[J, int]] = deque()
        starting: dict[Future[None], Any] = {}
        running: dict[Future[tuple[Status, Any, str]], tuple[Any, J, int]] = {}
        failed = 0
        try:
            while True:
                waiting.extend((job, 1) for job in islice(rest, max(0, self.count - len(running) - len(waiting))))
                if not waiting and not running:
                    return
                hosts = len(starting) + len(self._ready) + len(running)
                for _ in range(min(self.count - hosts, len(waiting) - len(starting) - len(self._ready))):
                    host = self._host.remote(self._given)
                    starting[host.ready.remote().future()] = host
                while self._ready and waiting:
                    host, (job, tries) = self._ready.pop(), waiting.popleft()
                    running[host.run.remote(function, job).future()] = host, job, tries
                # A wait of Ray's turns whatever a signal raises into KeyboardInterrupt.
                ended, _ = wait([*running, *(starting if waiting else ())], START_S, FIRST_COMPLETED)
                if not ended and not running:
                    raise ResultsError(
                        f"engine: no worker has started within {START_S:g} s: "
                        "the cluster has no free CPU or GPU for one"
                    )
                for future in ended & starting.keys():
                    failed = self._has_started(starting.pop(future), future, failed)
                for future in ended & running.keys():
                    host, job, tries = running.pop(future)
                    answer = self._answer(host, future)
                    if answer is None and tries < TRIES:
                        waiting.append((job, tries + 1))
                    else:
                        yield Ended(job, *(answer or ("crashed", None, _said(future.exception()))))
        finally:
            # Whoever stops reading, by Ctrl-C for example, leaves jobs that run.
            if self._is_open:  # otherwise, Ray would start anew to kill them
                for host in [*starting.values(), *(host for host, _, _ in running.values())]:
                    self._ray.kill(host)

    def _has_started(self, host: Any, future: Future[None], failed: int) -> int:
        """Take the word of a worker that is ready, or its death; return how many have died one after another."""
        if future.exception() is None:
            self._ready.append(host)
            return 0
        if failed + 1 >= TRIES:
            raise ResultsError(f"engine: a worker cannot be started ({_said(future.exception())})")
        return failed + 1

    def _answer(self, host: Any, future: Future[tuple[Status, Any, str]]) -> tuple[Status, Any, str] | None:
        """Return how a job ended, None if its worker has gone, with its machine for example."""
        error = future.exception()
        if error is None:
            self._ready.append(host)
            return future.result()
        if isinstance(error, self._ray.exceptions.RayActorError):
            return None
        self._ray.kill(host)  # it has answered, with an error of the engine
        return "error", None, _said(error)

    def __enter__(self) -> ClusterWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._ray.shutdown()


class _Host:
    """A process of the cluster that holds one worker."""

    def __init__(self, given: tuple[Callable[..., None], tuple[object, ...], Limits, str]) -> None:
        prepare, args, limits, folder = given
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
        with suppress(OSError):  # a machine may not have the folder that the run was started in
            os.chdir(folder)
        # This process has threads of Ray's, beside which a forked process is not safe.
        self.workers = Workers(1, prepare, *args, limits=limits, start="spawn")

    def ready(self) -> None:
        """Return when this process runs."""

    def run(self, function: Callable[[Any], Any], job: Any) -> tuple[str, Any, str]:
        """Return how a job ended."""
        (ended,) = self.workers.run(function, [job])
        return ended.status, ended.value, ended.message


def _end_with_parent(parent: int) -> None:
    """End this process, and the others of its parent, when their parent is gone: the daemon of Ray on this machine.

    If all of Ray is killed at once, it leaves some of its own for a minute.
    """
    started = [pid for tasks in Path(f"/proc/{parent}/task").glob("*/children") for pid in _read(tasks).split()]
    while os.getppid() == parent:
        time.sleep(0.2)
    for pid in started:
        if _read(Path(f"/proc/{pid}/cmdline")).startswith("ray::"):
            with suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
    os._exit(1)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _started(address: str, count: int) -> Any:
    """Return Ray, connected to a cluster."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ImportError as error:
        raise ConfigError(
            f"engine: expected Ray for ray, got none ({one_line(str(error))}): pip install 'zcbench[cluster]'"
        ) from None
    address = address or os.environ.get("RAY_ADDRESS", "")
    options: dict[str, Any] = {"address": address or "local"}
    if not address:
        options |= {"num_cpus": count, "include_dashboard": False}
    is_main = threading.current_thread() is threading.main_thread()
    ending = signal.getsignal(signal.SIGTERM)
    try:
        _knock(address)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**options, logging_level="ERROR", log_to_driver=False, ignore_reinit_error=True)
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigError(
            f"engine: expected a Ray cluster at {address or 'this machine'}, got none ({one_line(str(error))[:160]})"
        ) from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, ending)  # Ray has put its own there
    return ray


def _knock(address: str) -> None:
    """Raise an OSError if nothing answers at an address; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), KNOCK_S).close()


def _said(error: BaseException | None) -> str:
    return one_line(f"{type(error).__name__}: {error}")[:400]
