"""Workers on the machines of a Ray cluster. Each is a `Workers` of one process, so jobs end there as they end here."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ..errors import ConfigError, ResultsError, one_line
from .local import TRIES, Ended, Limits, Workers

J = TypeVar("J")
R = TypeVar("R")

#: Seconds within which one worker at least has to start.
START_S = 120.0


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

    def run(self, function: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Ended[J, R]]:
        """Yield every job as it ends, in any order; whoever is free takes the next one.

        Args:
            function: Module-level function.
            jobs: Jobs, the longest first.

        Raises:
            ResultsError: Workers cannot be started.
        """
        ray = self._ray
        waiting = deque((job, 1) for job in jobs)
        starting: dict[Any, Any] = {}
        running: dict[Any, tuple[Any, J, int]] = {}
        failed = 0
        while waiting or running:
            hosts = len(starting) + len(self._ready) + len(running)
            for _ in range(min(self.count - hosts, len(waiting) - len(starting) - len(self._ready))):
                host = self._host.remote(self._given)
                starting[host.ready.remote()] = host
            while self._ready and waiting:
                host, (job, tries) = self._ready.pop(), waiting.popleft()
                running[host.run.remote(function, job)] = host, job, tries
            ended, _ = ray.wait([*running, *(starting if waiting else ())], num_returns=1, timeout=START_S)
            if not ended and not running:
                raise ResultsError(
                    f"engine: no worker has started within {START_S:g} s: the cluster has no free CPU or GPU for one"
                )
            for reference in ended:
                if reference in starting:
                    host = starting.pop(reference)
                    try:
                        ray.get(reference)
                        self._ready.append(host)
                        failed = 0
                    except ray.exceptions.RayError as error:
                        failed += 1
                        if failed >= TRIES:
                            raise ResultsError(f"engine: a worker cannot be started ({_said(error)})") from None
                    continue
                host, job, tries = running.pop(reference)
                try:
                    status, value, message = ray.get(reference)
                    self._ready.append(host)
                except ray.exceptions.RayActorError as error:  # its machine has gone, for example
                    if tries < TRIES:
                        waiting.append((job, tries + 1))
                        continue
                    status, value, message = "crashed", None, _said(error)
                except ray.exceptions.RayError as error:  # its own process has answered, with an error of the engine
                    ray.kill(host)
                    status, value, message = "error", None, _said(error)
                yield Ended(job, status, value, message)
        for host in starting.values():
            ray.kill(host)

    def __enter__(self) -> ClusterWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ray.shutdown()


class _Host:
    """A process of the cluster that holds one worker."""

    def __init__(self, given: tuple[Callable[..., None], tuple[object, ...], Limits, str]) -> None:
        prepare, args, limits, folder = given
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


def _started(address: str, count: int) -> Any:
    """Return Ray, connected to a cluster."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ImportError as error:
        raise ConfigError(
            f"engine: expected Ray for ray, got none ({one_line(str(error))}): pip install 'zcbench[cluster]'"
        ) from None
    own = not address and "RAY_ADDRESS" not in os.environ
    options: dict[str, Any] = {"num_cpus": count, "include_dashboard": False} if own else {"address": address or None}
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    is_main = threading.current_thread() is threading.main_thread()
    ending = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**options, logging_level="ERROR", log_to_driver=False, ignore_reinit_error=True)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ConfigError(
            f"engine: expected a Ray cluster at {address or 'this machine'}, got none ({one_line(str(error))[:160]})"
        ) from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, ending)  # Ray has put its own there
    return ray


def _said(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")[:400]
