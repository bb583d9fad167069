"""Leases: runs that write to one results folder at once share its networks, and each network has one run at a time.

A run is alive as long as it holds a lock on its own file in the folder `leases`. The system frees the lock when the
process ends, however it ends and whatever the clocks say, so the networks of a run that was killed are free at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal

from ...errors import ResultsError
from ..study.recipe import Key

#: What a run may do with a job: do it, wait for another run that does it, or leave it, because another run has done it.
State = Literal["mine", "taken", "done"]


class Leases:
    """The share of one run.

    Where a file system has no locks, every job is this run's, and two runs do the same work twice, with equal scores.

    Args:
        results: Results folder.

    Raises:
        ResultsError: The folder cannot be written.
    """

    def __init__(self, results: Path) -> None:
        self.folder = results / "leases"
        self.name = uuid.uuid4().hex
        self._own = -1
        self._taken: set[str] = set()
        self._read: dict[Path, tuple[int, set[str]]] = {}

    def take(self, network: str, keys: Iterable[Key]) -> State:
        """Take a job, unless a run that is alive has it, or has done it since this run has started.

        Args:
            network: Text that only jobs of the same network have.
            keys: Keys of the scores of the job.
        """
        if self._own < 0:
            return "mine"
        lease, digest = self.folder / f"{_digest([network])}.lease", _digest(keys)
        with self._locked():
            if any(digest in self._done(path) for path in self._others()):
                return "done"
            owner = lease.read_text("utf-8") if lease.exists() else ""
            if owner and owner != self.name and _is_alive(self.folder / f"{owner}.run"):
                return "taken"
            lease.write_text(self.name, "utf-8")
        self._taken.add(lease.name)
        return "mine"

    def finish(self, network: str, keys: Iterable[Key]) -> None:
        """Give a job back whose scores are written."""
        if self._own < 0:
            return
        lease = self.folder / f"{_digest([network])}.lease"
        with self._locked():
            os.write(self._own, f"{_digest(keys)}\n".encode())
            lease.unlink(missing_ok=True)
        self._taken.discard(lease.name)

    def __enter__(self) -> Leases:
        try:
            self.folder.mkdir(exist_ok=True)
            with self._locked():
                self._own = os.open(self.folder / f"{self.name}.run", os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
                fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not any(map(_is_alive, self._others())):
                    self._clear(keep=f"{self.name}.run")
        except PermissionError as error:
            raise ResultsError(
                f"out: cannot write to {self.folder} ({error.strerror}): choose another folder"
            ) from None
        except OSError as error:
            self._own = -1
            sys.stderr.write(
                f"zcbench: {self.folder} has no locks ({error.strerror}): a second run into this folder at the same "
                "time would do the same work again\n"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own < 0:
            return
        with self._locked():
            for name in self._taken:
                (self.folder / name).unlink(missing_ok=True)
            # Runs that are alive still ask what this one has done.
            if not any(map(_is_alive, self._others())):
                self._clear(keep="")
            os.close(self._own)
            self._own = -1

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the one lock of the folder. What is done under it is short."""
        guard = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield
        finally:
            os.close(guard)

    def _others(self) -> list[Path]:
        return [path for path in self.folder.glob("*.run") if path.stem != self.name]

    def _done(self, path: Path) -> set[str]:
        """Return what another run has done, of which only the new lines are read."""
        at, known = self._read.setdefault(path, (0, set()))
        with path.open("rb") as stream:
            stream.seek(at)
            lines = stream.read().decode("ascii", "replace")
        known.update(lines.split())
        self._read[path] = at + len(lines), known
        return known

    def _clear(self, keep: str) -> None:
        for path in self.folder.iterdir():
            if path.suffix in {".run", ".lease"} and path.name != keep:
                path.unlink(missing_ok=True)


def _is_alive(path: Path) -> bool:
    """Tell whether the run of a file holds its lock."""
    try:
        probe = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(probe)
    return False


def _digest(parts: Iterable[object]) -> str:
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()[:16]
