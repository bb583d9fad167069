"""Worker processes of this machine. What a job does to its process, no other job sees.

Every worker has a pipe of its own, and workers share nothing. So a worker can be killed at any moment, while it waits
or while it sends, and no lock and no other job is lost. The pools of the standard library end with the first worker
that dies. That of pebble 5.2.3 ended in 30 of 30 trials on Linux: two forked workers did two jobs, one of them was
killed by SIGKILL while it waited, and the next six jobs were given.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import torch

from ..errors import ConfigError, ResultsError, ZcbenchError, one_line
from .fresh import remembered

J = TypeVar("J")
R = TypeVar("R")

#: How a job ended. `crashed`: its process died. `error`: it raised.
Status = Literal["ok", "error", "crashed", "timeout", "out_of_memory"]
#: Number of times that a job runs whose process died or had no memory: something else may have killed it.
TRIES = 3
#: Growth of a worker, MiB, after which it is replaced.
GROWTH_MIB = 1024
#: Seconds of one wait; the system has a limit.
_LONGEST_S = 86_400.0
#: Signals that ask a process to end.
_ENDING = {signal.SIGINT, signal.SIGTERM}
#: Length of a message.
_TEXT = 400


@dataclass(frozen=True)
class Limits:
    """What one job may take.

    Attributes:
        seconds: Wall time; 0 for no limit.
        mebibytes: Memory that its worker may add to what it starts with; 0 for no limit.
    """

    seconds: float = 0.0
    mebibytes: int = 0


@dataclass(frozen=True)
class Ended(Generic[J, R]):
    """A job that has ended.

    Attributes:
        value: What the function returned, None without status `ok`.
        message: Why there is no value, in words.
    """

    job: J
    status: Status
    value: R | None
    message: str


class Workers:
    """A set of worker processes with one thread each. As long as it is open, this process has one thread too.

    Args:
        count: Number of processes.
        prepare: Function that every process calls first.
        args: Arguments of `prepare`; forked processes need no copy of them.
        limits: What one job may take.
        start: How processes start; by default as is best on this machine.

    Raises:
        ConfigError: `count` is less than 1.
    """

    def __init__(
        self,
        count: int,
        prepare: Callable[..., None] | None = None,
        *args: object,
        limits: Limits | None = None,
        start: Literal["fork", "spawn"] | None = None,
    ) -> None:
        if count < 1:
            raise ConfigError(f"workers: expected 1 or more, got {count}")
        self.count = count
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums keep their order, whoever computes them
        self.limits = limits or Limits()
        self._prepare = prepare, args
        self._context = multiprocessing.get_context(start) if start else _context()
        self._workers: list[_Worker] = []
        self._failed = 0  # workers that have died one after another before they took a job

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
        try:
            while True:
                free = self.count - sum(worker.task is not None for worker in self._workers)
                waiting.extend((job, 1) for job in islice(rest, max(0, free - len(waiting))))
                if not waiting and not any(worker.task for worker in self._workers):
                    return
                while len(self._workers) < self.count and len(self._without_job()) < len(waiting):
                    self._workers.append(self._start())
                for worker in [worker for worker in self._without_job() if worker.is_ready][: len(waiting)]:
                    worker.give(function, *waiting.popleft(), self.limits.seconds)
                for worker in self._that_answer():
                    if worker.task is None:
                        self._has_started(worker)
                        continue
                    job, tries = worker.task
                    answer = worker.answer(self.limits.seconds)
                    if answer.ends:
                        self._kill([worker])
                    if answer.status in {"crashed", "out_of_memory"} and tries < TRIES:
                        waiting.append((job, tries + 1))
                    else:
                        yield Ended(job, answer.status, answer.value, answer.message)
        finally:
            # Whoever stops reading, by Ctrl-C for example, leaves jobs that run.
            self._kill([worker for worker in self._workers if worker.task])

    def map(self, function: Callable[[J], R], jobs: Sequence[J]) -> Iterator[R]:
        """Yield the results in the order of the jobs. One worker alone is this process, which shares what it has read.

        Raises:
            ZcbenchError: A job raises it.
            ResultsError: A job fails in another way.
        """
        if self.count == 1:
            yield from self._here(function, jobs)
            return
        found: dict[int, R] = {}
        place = 0
        for ended in self.run(_Numbered(function), list(enumerate(jobs))):
            if isinstance(ended.value, ZcbenchError):
                raise ended.value
            if ended.status != "ok":
                died = "died" if ended.status in {"crashed", "out_of_memory"} else "failed"
                raise ResultsError(
                    f"a worker {died} ({ended.message}); finished networks and generations are kept: run again, with "
                    "fewer workers if memory ran out"
                )
            found[ended.job[0]] = ended.value  # type: ignore[assignment]
            while place in found:
                yield found.pop(place)
                place += 1

    def _here(self, function: Callable[[J], R], jobs: Sequence[J]) -> Iterator[R]:
        if self._prepare[0] is not None:
            self._prepare[0](*self._prepare[1])
        yield from map(function, jobs)

    def _without_job(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.task is None]

    def _start(self) -> _Worker:
        taken = {worker.place for worker in self._workers}
        free = next(number for number in range(self.count) if number not in taken)
        gc.freeze()  # a search for garbage in a forked process would copy the memory that it shares with this one
        try:
            return _Worker(self._context, free, self._prepare, self.limits.mebibytes)
        finally:
            gc.unfreeze()

    def _has_started(self, worker: _Worker) -> None:
        """Take the word of a worker that is ready, or its death."""
        answer = worker.answer(0)
        if answer.status == "ok":
            worker.is_ready, self._failed = True, 0
            return
        self._kill([worker])
        self._failed += 1
        if answer.status == "error" or self._failed >= TRIES:
            raise ResultsError(f"workers: a worker cannot be started ({answer.message}): use fewer workers")

    def _that_answer(self) -> list[_Worker]:
        """Wait for workers that have answered, have died, or are over the limit of time."""
        deadlines = [worker.deadline for worker in self._workers if worker.task and worker.deadline]
        left = min(max(0.0, min(deadlines) - time.monotonic()), _LONGEST_S) if deadlines else None
        ready = set(wait([each for worker in self._workers for each in worker.waited_for], left))
        now = time.monotonic()
        found = [worker for worker in self._workers if ready.intersection(worker.waited_for) or worker.is_late(now)]
        # A worker that dies while it waits for a job is replaced.
        self._kill([worker for worker in found if worker.is_ready and worker.task is None])
        return [worker for worker in found if worker in self._workers]

    def _kill(self, workers: Sequence[_Worker]) -> None:
        for worker in workers:
            worker.end()
        for worker in workers:  # they end at the same time
            worker.close()
        self._workers = [worker for worker in self._workers if worker not in workers]

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill(self._workers)
        torch.set_num_threads(self._threads)


class _Numbered(Generic[J, R]):
    """A function of a job and its place; a user error is a result, so that it arrives as it is."""

    def __init__(self, function: Callable[[J], R]) -> None:
        self.function = function

    def __call__(self, numbered: tuple[int, J]) -> R | ZcbenchError:
        try:
            return self.function(numbered[1])
        except ZcbenchError as error:
            return error


class _Answer(NamedTuple):
    status: Status
    value: Any
    message: str
    ends: bool = False  # whether the worker takes no other job


class _Worker:
    """A worker process, as the process that started it sees it."""

    def __init__(
        self,
        context: BaseContext,
        place: int,
        prepare: tuple[Callable[..., None] | None, tuple[object, ...]],
        mebibytes: int,
    ) -> None:
        self.place = place
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, place, *prepare, mebibytes), daemon=True)  # type: ignore[attr-defined]
        # An exception that a signal raises while a process is forked is lost, and so is the signal.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.waited_for: tuple[Connection, int] = (self.connection, self.process.sentinel)
        self.task: tuple[Any, int] | None = None
        self.deadline = 0.0
        self.is_ready = False

    def is_late(self, now: float) -> bool:
        """Tell whether its job is over the limit of time."""
        return self.task is not None and 0.0 < self.deadline <= now

    def give(self, function: Callable[[Any], Any], job: Any, tries: int, seconds: float) -> None:
        """Send a job."""
        self.task = job, tries
        self.deadline = time.monotonic() + seconds if seconds else 0.0
        with contextlib.suppress(OSError):  # it has died since it was looked at; its sentinel says so
            self.connection.send((function, job))

    def answer(self, seconds: float) -> _Answer:
        """Return how the job ended, or the start of the worker."""
        answer = self._received() or self._without_answer(seconds)
        self.task = None
        return answer

    def _received(self) -> _Answer | None:
        try:
            return _Answer(*self.connection.recv()) if self.connection.poll() else None
        except (EOFError, OSError):  # it died while it sent
            return None

    def _without_answer(self, seconds: float) -> _Answer:
        if self.is_late(time.monotonic()) and self.process.is_alive():
            return _Answer("timeout", None, f"it took longer than {seconds:g} s", ends=True)
        self.process.join(1)
        code = self.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
            return _Answer("crashed", None, f"its process was ended by the signal {name}{hint}", ends=True)
        return _Answer("crashed", None, f"its process ended with exit status {code}", ends=True)

    def end(self) -> None:
        """End the process, and those that its networks have started, without waiting for it."""
        try:
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # it has not made its group yet, or all of it has ended
            self.process.kill()

    def close(self) -> None:
        """Wait for the end of the process, and free what this process has of it."""
        self.process.join()
        self.connection.close()
        self.process.close()


def place() -> int:
    """Return the place of this worker among the workers, from 0; one that is replaced leaves it to the next."""
    return _place


_place = 0


def _context() -> BaseContext:
    """Return the start method: forked processes share memory, but are not safe beside the threads of a device."""
    fork = sys.platform == "linux" and not torch.cuda.is_available() and _forked_processes_take_gradients()
    return multiprocessing.get_context("fork" if fork else "spawn")


def _forked_processes_take_gradients() -> bool:
    """Tell by a trial whether torch takes gradients in a process that is forked now.

    It refuses where this process has taken one and torch knows a device other than CPUs. It names no such device when
    it was only compiled for one: Debian's torch 2.6 is, for Vulkan.
    """
    trial = multiprocessing.get_context("fork").Process(target=_take_gradient, daemon=True)
    trial.start()
    trial.join()
    code = trial.exitcode
    trial.close()
    return code == 0


def _take_gradient() -> None:
    try:
        torch.ones((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
    except RuntimeError:
        os._exit(1)


def _serve(
    connection: Connection, own: int, prepare: Callable[..., None] | None, args: tuple[object, ...], mebibytes: int
) -> None:
    """Take jobs and answer them, until the other end of the pipe is closed."""
    global _place  # noqa: PLW0603 - a process is one worker
    _place = own
    os.setsid()  # its descendants are ended with it
    own_process = os.getpid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent is interrupted too, and ends this worker
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what a network prints does not mix with results on standard output
    answer = _answered(lambda _: prepare(*args) if prepare else None, None)
    bring_back = remembered()
    start = _resident_mib()
    _limit_memory(mebibytes)
    connection.send(tuple(answer))
    while True:
        try:
            function, job = connection.recv()
        except EOFError:
            return
        bring_back()
        answer = _answered(function, job)
        if os.getpid() != own_process:  # a network has forked, and this is the copy
            os._exit(0)
        gc.collect()
        grown = _resident_mib() - start > GROWTH_MIB or answer.status == "out_of_memory"
        connection.send(tuple(answer._replace(ends=grown)))


def _answered(function: Callable[[Any], Any], job: Any) -> _Answer:
    try:
        return _Answer("ok", function(job), "")
    except BaseException as error:  # SystemExit too: a network may call sys.exit
        status: Status = "out_of_memory" if is_out_of_memory(error) else "error"
        return _Answer(status, None, one_line(f"{type(error).__name__}: {error}")[:_TEXT])


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out; on CPUs, torch raises a plain RuntimeError."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def _end_with_parent() -> None:
    """End this process when its parent is gone; no other signal says that the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _limit_memory(mebibytes: int) -> None:
    """Let allocations fail when the process has added some memory, so that the system does not kill it or others."""
    if mebibytes and sys.platform == "linux":
        now = _of_status("VmData")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = min((now + mebibytes) << 20, sys.maxsize)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))


def _resident_mib() -> int:
    return _of_status("VmRSS") if sys.platform == "linux" else 0


def _of_status(name: str) -> int:
    """Return a number of this process in MiB."""
    return int(Path("/proc/self/status").read_text("utf-8").split(f"{name}:")[1].split()[0]) >> 10
