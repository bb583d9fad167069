"""The run of a study: `Trainer.predict` with networks as its data set. Every worker writes its own parts."""

from __future__ import annotations

import dataclasses
import json
import logging
import multiprocessing
import resource
import signal
import sys
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import Callback
from torch.utils.data import DataLoader

from ...atomic import write_atomically
from ...environment import environment
from ...errors import ConfigError, one_line
from ...plugins import load
from ...progress import Progress
from ...proxies import PROXIES
from ...proxies.registry import Score, score_all
from ..study.config import TrainerConfig, listed
from ..study.recipe import Work
from ..study.resolve import Study
from .parts import KEY, Row
from .store import Store
from .writer import Writer


@dataclass(frozen=True)
class Job:
    """One item of the data set that the trainer predicts on: a network and its work.

    Attributes:
        index: Index of the network in the space.
        work: Work that is not in the store.
    """

    index: int
    architecture: str
    work: tuple[Work, ...]


def missing(study: Study, store: Store) -> list[Job]:
    """Return the jobs of a study, the most expensive networks first, so that all workers end at the same time."""
    rest = store.missing(study.recipe, tries=sys.maxsize)
    named = ((index, study.space.architecture(index)) for index in study.indices)
    jobs = [Job(index, architecture, rest[architecture]) for index, architecture in named if architecture in rest]
    task = study.images.task
    return sorted(jobs, key=lambda job: (-study.space.macs(job.architecture, task), job.index))


def run(study: Study) -> bool:
    """Compute the scores that are not in the store, and record the run; return whether this process reports.

    Raises:
        ResultsError: The results folder cannot be written.
    """
    store = Store(study.out)
    store.create()
    jobs = missing(study, store)
    started, clock = datetime.now(UTC), time.perf_counter()
    if jobs:
        with _quiet_lightning(), _one_thread():
            trainer = _trainer(study.config.trainer, len(jobs))
            trainer.predict(
                _Scorer(study, store), DataLoader(_Jobs(jobs), batch_size=1, collate_fn=_only), return_predictions=False
            )
            if not trainer.is_global_zero:
                return False
    record = {
        "started": started.isoformat(timespec="seconds"),
        "wall_s": round(time.perf_counter() - clock, 3),
        "scored": len(jobs),
        "reused": len(study.indices) - len(jobs),
        "config": dataclasses.asdict(study.config),
        "recipe": study.recipe.document(),
        "sizes": study.sizes(),
        "environment": environment(),
    }
    name = f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}.json"
    write_atomically(store.folder / "runs" / name, json.dumps(record, indent=1, allow_nan=False).encode())
    return True


class _Jobs(torch.utils.data.Dataset[Job]):
    def __init__(self, jobs: list[Job]) -> None:
        self.jobs = jobs

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, index: int) -> Job:
        return self.jobs[index]


def _only(items: list[Job]) -> Job:
    return items[0]


class _Scorer(pl.LightningModule):
    """A module that builds and scores one network per step. It has no parameters of its own."""

    def __init__(self, study: Study, store: Store) -> None:
        super().__init__()
        self.study = study
        self.store = store
        self.writer: Writer | None = None

    def transfer_batch_to_device(self, batch: Job, device: torch.device, dataloader_idx: int) -> Job:
        return batch

    def on_predict_start(self) -> None:
        # A spawned worker has neither our number of threads nor the files to include.
        torch.set_num_threads(1)
        load(listed(self.study.config.include))
        self.writer = self.store.writer()

    def on_predict_end(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def predict_step(self, job: Job, batch_idx: int) -> int:
        assert self.writer is not None
        rows = list(self._rows(job))
        self.writer.add(rows)
        if self.trainer.received_sigterm:  # Lightning notes the signal and continues to predict
            raise SystemExit(128 + signal.SIGTERM)
        return len(rows)  # Lightning warns of a step that returns None

    def _rows(self, job: Job) -> Iterator[Row]:
        study, precision = self.study, getattr(torch, self.study.config.precision)
        for seed in dict.fromkeys(work.seed for work in job.work):
            net = study.space.build(job.architecture, study.images.task, seed).to(self.device, precision)
            known: dict[str, Score] = {}
            for work in (work for work in job.work if work.seed == seed):
                batch = study.batches[work.batch_size, seed]
                proxies = [PROXIES[name] for name in work.proxies if name not in known]
                y = None if batch.y is None else batch.y.to(self.device)
                x = batch.x.to(self.device, precision, memory_format=study.space.memory_format)
                scores = {s.proxy: s for s in score_all(net, x, y, proxies, seed=seed)}
                # A score that is the same for every batch is computed once.
                known |= {name: score for name, score in scores.items() if PROXIES[name].batch_free}
                for name in work.proxies:
                    score = scores.get(name) or known[name]
                    yield Row(
                        **dict(zip(KEY, study.recipe.key(job.architecture, work, name), strict=True)),
                        value=score.value,
                        status=score.status,
                        message=score.message,
                        wall_s=score.wall_s,
                        peak_mib=_peak_mib(self.device),
                    )


def _peak_mib(device: torch.device) -> float:
    """Return the peak memory of this worker so far: on the GPU, or resident in the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:
        # Linux has this file. The peak of getrusage includes the process that started this one.
        status = Path("/proc/self/status").read_text("utf-8")
        return int(status.split("VmHWM:")[1].split()[0]) / 2**10
    except (OSError, LookupError):
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


class _ProgressBar(Callback):
    """A progress bar of the networks that all workers of this machine have finished."""

    def __init__(self, total: int, workers: int) -> None:
        # A counter of the spawn context works with forked workers too.
        self.done = multiprocessing.get_context("spawn").Value("i", 0)
        self.total = total
        self.workers = workers
        self.progress: Progress | None = None

    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            self.progress = Progress(f"scoring {self.total} networks on {self.workers} worker(s)", self.total)

    def on_predict_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        with self.done.get_lock():
            self.done.value += 1
        if self.progress:
            self.progress.update(self.done.value)

    def on_predict_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.progress:
            self.progress.close()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        if self.progress:
            self.progress.close()


def _trainer(config: TrainerConfig, jobs: int) -> pl.Trainer:
    strategy = config.strategy
    on_cpu = config.accelerator == "cpu"
    devices = min(config.devices, jobs) if on_cpu and config.num_nodes == 1 else config.devices
    if strategy == "auto" and on_cpu and devices > 1 and config.num_nodes == 1:
        # Forking takes no time, but is not safe after a process has started the threads of CUDA.
        strategy = "ddp_fork" if sys.platform == "linux" and not torch.cuda.is_available() else "ddp_spawn"
    try:
        return pl.Trainer(
            accelerator=config.accelerator,
            devices=devices,
            num_nodes=config.num_nodes,
            strategy=strategy,
            inference_mode=False,  # proxies take gradients; predict_step enables them
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            callbacks=[_ProgressBar(jobs, devices * config.num_nodes)],
        )
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"trainer: expected settings that this machine allows, got {config} ({one_line(str(error))[:120]}): change "
            "--trainer.accelerator, --trainer.devices or --trainer.strategy"
        ) from None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Give every CPU worker one thread: two processes are faster than two threads, and the order of sums is fixed."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Silence the advice of Lightning on training, which does not apply when networks are the data."""
    names = {"pytorch_lightning", *(n for n in logging.root.manager.loggerDict if n.startswith("lightning"))}
    loggers = [logging.getLogger(name) for name in sorted(names)]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            # A data loader needs no workers here, because an item is a text and not an image.
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            # Lightning 2.6 gives this warning with newer versions of torch.
            warnings.filterwarnings("ignore", message=".*treespec, LeafSpec.*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
