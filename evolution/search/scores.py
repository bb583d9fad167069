"""The scores that searches ask for: stored ones are read, others are computed, and every score becomes a row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np

from ...bench.scoring.asked import workers
from ...bench.scoring.leases import Leases
from ...bench.scoring.parts import ATTEMPTS
from ...bench.scoring.runner import Job, scored
from ...bench.scoring.store import Store
from ...bench.scoring.writer import Writer
from ...bench.study.recipe import Work
from ...bench.study.resolve import Study
from ...engine import ClusterWorkers, Limits, Workers
from ...errors import ConfigError
from ...progress import Progress
from ...proxies import AGGREGATES, PROXIES

Started = tuple[Leases, Writer, Workers | ClusterWorkers]

#: Number of networks after which a proxy that has no score for any of them is given up.
PATIENCE = 5


class Scores:
    """The scores of the networks of a space, for as many questions as there are. Workers start at the first need.

    Args:
        study: What networks are scored with: its space, images, proxies, seed and engine. Its sample is not used.
        representatives: Whether a network has the score of the representative of its class.

    Raises:
        ResultsError: The results folder cannot be read or written.
    """

    def __init__(self, study: Study, *, representatives: bool = False) -> None:
        self.study = study
        self._representatives = representatives
        self._store = Store(study.out)
        self._work = {name: work for work in study.work for name in work.proxies}
        self._known: dict[str, dict[str, float]] = {name: {} for name in self._work}
        self._messages: dict[str, str] = {}
        self._open = ExitStack()
        self._started_workers: Started | None = None
        self.computed = 0
        self.failed: set[tuple[str, str]] = set()
        self._read(self._store.networks(study.space.name, study.images.name))

    def need(self, wanted: Iterable[tuple[str, str]], progress: Progress | None = None) -> None:
        """Compute what is not there yet of the scores of pairs of a proxy and a network.

        Proxies of one network share their passes. Each network that is scored counts in `progress`.

        Raises:
            ConfigError: A proxy has no score for any network so far.
        """
        lacking: dict[str, set[str]] = {}
        for proxy, network in wanted:
            name = self._scored(network)
            for member in _members(proxy):
                if name not in self._known[member]:
                    lacking.setdefault(name, set()).add(member)
        if lacking:
            self._compute(lacking, progress or Progress("", 0, shown=False))
        self._check()

    def of(self, proxy: str, networks: Sequence[str]) -> list[float]:
        """Return the scores of networks that were needed before: higher is better, and NaN where none is finite.

        An aggregate ranks these networks among each other.
        """
        names = [self._scored(network) for network in networks]
        columns = {member: np.array([self._known[member][name] for name in names]) for member in _members(proxy)}
        if proxy in AGGREGATES:
            values = AGGREGATES[proxy].score(columns)
        else:
            values = columns[proxy] if PROXIES[proxy].direction == "higher" else -columns[proxy]
        return [float(value) if math.isfinite(value) else math.nan for value in values]

    def lacking(self) -> list[str]:
        """Return a line for every proxy that has no finite score for some of the networks, with the last reason."""
        counted = (
            (name, found, sum(not math.isfinite(v) for v in found.values())) for name, found in self._known.items()
        )
        return [
            f"proxy {name}: {count} of {len(found)} networks have no finite score ({self._messages[name][:120]})"
            for name, found, count in counted
            if count
        ]

    def _scored(self, network: str) -> str:
        """Return the network whose score counts for a network."""
        space = self.study.space
        return space.architecture(space.representative(space.index(network))) if self._representatives else network

    def _compute(self, lacking: Mapping[str, set[str]], progress: Progress) -> None:
        jobs = [self._job(name, proxies) for name, proxies in lacking.items()]
        leases, writer, engine = self._started()
        progress.extend(len(jobs))
        for _, rows in scored(self.study, jobs, leases, writer, engine, Progress("", len(jobs), shown=False)):
            for row in rows:
                self._take(row.proxy, row.architecture, row.value, row.status, row.message)
            progress.advance(1)
        self.computed += len(jobs)
        if rest := [name for name, proxies in lacking.items() if any(name not in self._known[p] for p in proxies)]:
            self._read(rest, tries=0)  # other runs have scored them meanwhile

    def _job(self, network: str, proxies: set[str]) -> Job:
        work = [
            Work(each.seed, each.batch_size, names)
            for each in self.study.work
            if (names := tuple(name for name in each.proxies if name in proxies))
        ]
        return Job(0, network, tuple(work), (network,))

    def _read(self, networks: Sequence[str], tries: int | None = None) -> None:
        """Take the rows of networks that the store has; attempts count if there were `tries` of them."""
        if not networks:
            return
        least = self.study.config.tries if tries is None else tries
        recipe = dataclasses.replace(self.study.recipe, accuracies=dict.fromkeys(networks, math.nan), classes=())
        row: Any
        for row in self._store.rows(recipe).itertuples():
            if row.status not in ATTEMPTS or row.attempts >= least:
                self._take(row.proxy, row.architecture, row.value, row.status, row.message)

    def _take(self, proxy: str, network: str, value: float, status: str, message: str) -> None:
        self._known[proxy][network] = value
        if status in ATTEMPTS:
            self.failed.add((proxy, network))
        if not math.isfinite(value):
            self._messages[proxy] = f"{status}: {message}" if message else status

    def _check(self) -> None:
        for proxy, found in self._known.items():
            if len(found) >= PATIENCE and not any(map(math.isfinite, found.values())):
                raise ConfigError(
                    f"proxy: expected one that scores networks of {self.study.space.name}, got {proxy}, which failed "
                    f"on all {len(found)} ({self._messages[proxy][:120]})"
                )

    def _started(self) -> Started:
        """Start the workers at the first call, and keep them."""
        if self._started_workers is None:
            config = self.study.config
            self._store.create()
            limits = Limits(seconds=config.limit_s, mebibytes=config.memory_mib)
            engine: Workers | ClusterWorkers = workers(self.study, config.workers, limits)
            self._open.enter_context(engine)
            self._started_workers = (
                self._open.enter_context(Leases(self.study.out)),
                self._open.enter_context(self._store.writer()),
                engine,
            )
        return self._started_workers

    def __enter__(self) -> Scores:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)


def _members(proxy: str) -> tuple[str, ...]:
    """Return the proxies whose scores a proxy or an aggregate needs."""
    return AGGREGATES[proxy].members if proxy in AGGREGATES else (proxy,)
