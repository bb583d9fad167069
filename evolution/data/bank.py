"""The store of network statistics: one file a network, computed once, mapped into memory by all who read it.

A file is a safetensors file, named by a digest of its recipe; its tensors are called `terminal/group`, so that what a
program reads lies together. Its metadata hold the recipe, the instances of every group, and a checksum of all.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors.torch import save
from torch import Tensor

from ...atomic import write_atomically
from ...datasets import ImageDataModule
from ...datasets.tasks import Task
from ...errors import ConfigError, NotApplicableError, NotFiniteError, ResultsError, one_line
from ...progress import Progress
from ...proxies.probe import Probe
from ...spaces import Space
from .statistics import TERMINALS, VERSION, Collection, Group, Statistics, collect, needs
from .workers import context, start

Dtype = Literal["float32", "bfloat16"]
Networks = Sequence[tuple[Space, int]]

#: A file, its size and its time of change.
_Stamp = tuple[Path, int, int]


@dataclass(frozen=True)
class Handle:
    """The statistics of one network, wherever they are needed: small, and handed to other processes as it is.

    Attributes:
        path: Their file, or the record of why there is none.
        recipe: What they are, as JSON.
        failure: Why there are none; empty if there are.
    """

    path: Path
    recipe: str
    failure: str = ""

    def load(self) -> Statistics:
        """Map the statistics into memory: what is read becomes resident, once for all processes together.

        Tensors are of the bank's dtype; writing to one does not reach the file. The first time that a process loads a
        file that neither it nor the process that it was forked from has written it compares the checksum.

        Raises:
            ResultsError: There are none, or the file is torn or that of something else.
        """
        if self.failure:
            raise ResultsError(f"no statistics ({self.failure}): delete {self.path} to try again")
        _check(self.path, self.recipe)
        document, tensors = _map(self.path, self.recipe)
        groups = [
            Group({terminal: tensors[f"{terminal}/{group}"] for terminal in TERMINALS}, tuple(places))
            for group, places in enumerate(document["places"])
        ]
        return Statistics(sum(len(group.places) for group in groups), tuple(groups))


class Bank:
    """A folder of statistics, of one collection and dtype.

    Args:
        folder: Made when the first network is written.
        collection: How instances are found, see `statistics.collect`.
        dtype: What tensors are stored as: float32 as they are, bfloat16 rounded to 8 bits of significand.

    Raises:
        ConfigError: No such collection or dtype.
    """

    def __init__(self, folder: Path, collection: Collection = "rcb", dtype: Dtype = "float32") -> None:
        if collection not in get_args(Collection):
            raise ConfigError(f"collection: expected {', '.join(get_args(Collection))}, got '{collection}'")
        if dtype not in get_args(Dtype):
            raise ConfigError(f"dtype: expected {' or '.join(get_args(Dtype))}, got '{dtype}'")
        self.folder = folder
        self.collection = collection
        self.dtype = dtype

    def build(
        self, networks: Networks, images: ImageDataModule, batch_size: int = 1, seed: int = 0, *, devices: int = 1
    ) -> list[Handle]:
        """Compute what is missing and return a handle for every network, in their order.

        A network without statistics has a handle that says why; that is recorded too, and not tried again until its
        record is deleted. Killed, only what was under way is lost.

        Args:
            networks: Each a space and an index.
            images: What networks see; the data set's task is what they are built for.
            batch_size: Images in the probe batch.
            seed: Of the batch, of the weights and of the noise.
            devices: Worker processes, each of one thread; the files do not depend on their number.

        Raises:
            ConfigError: The batch size or the number of workers is not possible.
            ResultsError: A file is torn, or that of another network; a worker dies; the folder cannot be written.
        """
        if devices < 1:
            raise ConfigError(f"devices: expected 1 or more, got {devices}")
        jobs = self._jobs(networks, images, batch_size, seed)
        missing = {job.path: job for job in jobs if not job.path.exists() and not job.record.exists()}
        if missing:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                _run(list(missing.values()), min(devices, len(missing)))
            except OSError as error:
                raise ResultsError(
                    f"statistics: cannot write to {self.folder} ({error.strerror}): choose another folder"
                ) from None
        return [job.handle() for job in jobs]

    def open(self, networks: Networks, images: ImageDataModule, batch_size: int = 1, seed: int = 0) -> list[Handle]:
        """Return a handle for every network, in their order, and compute nothing.

        Args:
            networks: As for `build`.
            images: As for `build`.
            batch_size: As for `build`.
            seed: As for `build`.

        Raises:
            ConfigError: The batch size is not possible.
            ResultsError: Statistics are missing, a file is torn, or that of another network.
        """
        return [job.handle() for job in self._jobs(networks, images, batch_size, seed)]

    def _jobs(self, networks: Networks, images: ImageDataModule, batch_size: int, seed: int) -> list[_Job]:
        batch = images.probe_batch(batch_size, seed)
        jobs = []
        for space, index in networks:
            architecture = space.architecture(index)
            recipe = {
                "space": space.name,
                "architecture": architecture,
                "dataset": images.name,
                "batch_hash": batch.hash,
                "batch_size": batch_size,
                "seed": seed,
                "collection": self.collection,
                "dtype": self.dtype,
                "version": VERSION,
                "torch": torch.__version__,
            }
            jobs.append(_Job(self.folder, json.dumps(recipe, sort_keys=True), space, images.task, batch.x))
        return jobs


@dataclass(frozen=True)
class _Job:
    """A network whose statistics are wanted."""

    folder: Path
    recipe: str
    space: Space
    task: Task
    x: Tensor

    @property
    def path(self) -> Path:
        return self.folder / f"{self._key}.safetensors"

    @property
    def record(self) -> Path:
        """Where a failure is recorded."""
        return self.folder / f"{self._key}.json"

    @property
    def _key(self) -> str:
        return hashlib.sha256(self.recipe.encode()).hexdigest()[:32]

    def handle(self) -> Handle:
        """Return what there is.

        Raises:
            ResultsError: There is nothing, or it is torn or of something else.
        """
        if self.path.exists():
            _map(self.path, self.recipe)
            return Handle(self.path, self.recipe)
        if self.record.exists():
            return Handle(self.record, self.recipe, _read_record(self.record, self.recipe))
        raise ResultsError(f"statistics: {self.folder} has none for {self.recipe}: build them first")

    def run(self) -> _Stamp | None:
        """Compute and write the statistics, or record why there are none; return what tells the file from others."""
        recipe = json.loads(self.recipe)
        collection = recipe["collection"]
        try:
            net = self.space.build(recipe["architecture"], self.task, recipe["seed"])
            probe = Probe(net, self.x, seed=recipe["seed"], plan=needs(collection=collection))
            statistics = collect(probe, collection=collection)
        except (NotApplicableError, NotFiniteError) as error:
            self._fail(str(error))
        except Exception as error:  # the kind is kept: a network that fails must not end the others
            self._fail(f"{type(error).__name__}: {error}")
        else:
            del net, probe
            dtype = getattr(torch, recipe["dtype"])
            tensors = {
                f"{terminal}/{place}": tensor.to(dtype)
                for place, group in enumerate(statistics.groups)
                for terminal, tensor in group.tensors.items()
            }
            places = [group.places for group in statistics.groups]
            document = {"recipe": recipe, "places": places, "crc32": _checksum(recipe, places, tensors)}
            write_atomically(self.path, save(tensors, {_KEY: json.dumps(document)}))
            return _stamp(self.path)
        return None

    def _fail(self, message: str) -> None:
        record = {"recipe": json.loads(self.recipe), "failure": one_line(message)}
        write_atomically(self.record, json.dumps(record, indent=1).encode())


def _run(jobs: Sequence[_Job], devices: int) -> None:
    progress = Progress(f"collecting statistics of {len(jobs)} networks on {devices} worker(s)", len(jobs))
    try:
        for stamp in _alone(jobs) if devices == 1 else _together(jobs, devices):
            if stamp:  # what was written a moment ago is what it should be
                _CHECKED.add(stamp)
            progress.advance(1)
    finally:
        progress.close()


def _alone(jobs: Sequence[_Job]) -> Iterator[_Stamp | None]:
    """Run jobs here, on one thread, as workers do: sums then have one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in jobs:
            yield job.run()
    finally:
        torch.set_num_threads(before)


def _together(jobs: Sequence[_Job], devices: int) -> Iterator[_Stamp | None]:
    """Run jobs in worker processes, in any order."""
    pool = ProcessPoolExecutor(devices, context(), _start, (jobs,))
    try:
        for done in as_completed([pool.submit(_run_one, place) for place in range(len(jobs))]):
            yield done.result()
    except BrokenProcessPool:
        raise ResultsError(
            "statistics: a worker died, perhaps for want of memory; what is finished is kept: try fewer devices"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


#: What this worker may be asked for; a job is too large to be sent for every network.
_JOBS: list[_Job] = []


def _start(jobs: Sequence[_Job]) -> None:
    start()
    _JOBS[:] = jobs


def _run_one(place: int) -> _Stamp | None:
    return _JOBS[place].run()


_KEY = "zcbench"
_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}
#: Files that this process has written, or whose checksum it has compared.
_CHECKED: set[_Stamp] = set()


def _map(path: Path, recipe: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the metadata of a file and its tensors, mapped, after a check of everything but the numbers.

    `safetensors.safe_open` would touch every tensor, and so make most of the file resident.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > size:
                raise ValueError("it ends in its header")
            header = json.loads(stream.read(length))
        document = json.loads(header.pop("__metadata__")[_KEY])
        start = 8 + length
        end = max(entry["data_offsets"][1] for entry in header.values())
        if start + end != size:
            raise ValueError(f"it has {size} bytes, expected {start + end}")
        memory = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
        tensors = {
            name: memory[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
            .view(_DTYPES[entry["dtype"]])
            .view(entry["shape"])
            for name, entry in header.items()
        }
        counts = {f"{t}/{g}": len(places) for g, places in enumerate(document["places"]) for t in TERMINALS}
        if {name: len(tensor) for name, tensor in tensors.items()} != counts:
            raise ValueError("its tensors are not those of its instances")
        if document["recipe"] != json.loads(recipe):
            raise ValueError("it is of something else")
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError) as error:
        raise _unusable(path, str(error)) from None
    return document, tensors


def _check(path: Path, recipe: str) -> None:
    """Compare the checksum of a file, once a process, and let go of it: then only what is read stays resident."""
    if (stamp := _stamp(path)) not in _CHECKED:
        document, tensors = _map(path, recipe)
        if document["crc32"] != _checksum(document["recipe"], document["places"], tensors):
            raise _unusable(path, "its checksum differs")
        _CHECKED.add(stamp)


def _stamp(path: Path) -> _Stamp:
    try:
        stat = path.stat()
    except OSError as error:
        raise _unusable(path, str(error)) from None
    return path, stat.st_size, stat.st_mtime_ns


def _checksum(recipe: Any, places: Any, tensors: Mapping[str, Tensor]) -> int:
    """Return the CRC-32 of all that a file says: 2.6 GB/s, against 1.1 GB/s for a SHA-256."""
    layout = {name: (str(tensor.dtype), list(tensor.shape)) for name, tensor in tensors.items()}
    crc = zlib.crc32(json.dumps([recipe, places, layout], sort_keys=True).encode())
    for _, tensor in sorted(tensors.items()):
        crc = zlib.crc32(tensor.flatten().view(torch.uint8).numpy().data, crc)
    return crc


def _read_record(path: Path, recipe: str) -> str:
    try:
        record = json.loads(path.read_text("utf-8"))
        if record["recipe"] != json.loads(recipe):
            raise ValueError("it is of something else")
        return str(record["failure"]) or "unknown"
    except (OSError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise _unusable(path, str(error)) from None


def _unusable(path: Path, why: str) -> ResultsError:
    return ResultsError(f"statistics {path} are unusable ({one_line(why)[:120]}): delete the file and build it again")
