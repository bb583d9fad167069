"""The store of network statistics: one file per network, computed once and mapped into memory by every reader.

A file is a safetensors file whose name is a digest of its recipe. Its tensors are called `terminal/group`, so that the
tensors that a program reads lie together. Its metadata holds the recipe, the instances of every group and a checksum.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from ...atomic import write_atomically
from ...datasets import Images
from ...datasets.tasks import Task
from ...engine import Workers
from ...errors import ConfigError, NotApplicableError, NotFiniteError, ResultsError, one_line
from ...progress import Progress
from ...proxies.probe import Probe
from ...spaces import Space
from . import layers
from .layers import LayerTable
from .statistics import TERMINALS, VERSION, Collected, Collection, Group, Statistics

Dtype = Literal["float32", "bfloat16"]
#: What is kept of a network: the statistics of a collection, or its layer table.
Kept: TypeAlias = Collection | Literal["layers"]
Networks = Sequence[tuple[Space, int]]

#: Path, size and modification time of a file.
_Stamp = tuple[Path, int, int]


@dataclass(frozen=True)
class Handle:
    """A reference to the statistics of one network, small enough to be sent to other processes.

    Attributes:
        path: File of the statistics, or the record of the failure if there are none.
        recipe: Recipe of the statistics, as JSON.
        failure: Reason why the network has no statistics; empty if it has some.
    """

    path: Path
    recipe: str
    failure: str = ""

    def load(self) -> Statistics:
        """Map the statistics into memory; only the parts that are read take memory, once for all processes.

        Tensors have the bank's dtype. Writing to a tensor does not change the file. A process compares the checksum of
        a file when it loads it for the first time, unless it or the process that forked it has written the file.

        Raises:
            ResultsError: The network has no statistics, or the file is torn or has another recipe.
        """
        if self.failure:
            raise ResultsError(f"no statistics ({self.failure}): delete {self.path} to try again")
        _check(self.path, self.recipe)
        document, tensors = _map(self.path, self.recipe)
        names = _names(document["recipe"]["collection"])
        groups = [
            Group({name: tensors[f"{name}/{group}"] for name in names}, tuple(places))
            for group, places in enumerate(document["places"])
        ]
        return Statistics(sum(len(group.places) for group in groups), tuple(groups))


class Bank:
    """A folder of statistics of one collection and one dtype.

    Args:
        folder: Folder of the files; it is created with the first file.
        collection: Rule that finds the instances of a network, see `statistics.collect`; or `layers` for its layer
            table, which is stored as one instance with a vector for each column.
        dtype: Type of the stored tensors: `float32` is exact, `bfloat16` rounds to 8 bits of significand. Layer tables
            are float64.

    Raises:
        ConfigError: The collection or the dtype is unknown.
    """

    def __init__(self, folder: Path, collection: Kept = "rcb", dtype: Dtype = "float32") -> None:
        if collection not in (kept := [*get_args(Collection), "layers"]):
            raise ConfigError(f"collection: expected {', '.join(kept)}, got '{collection}'")
        if dtype not in get_args(Dtype):
            raise ConfigError(f"dtype: expected {' or '.join(get_args(Dtype))}, got '{dtype}'")
        self.folder = folder
        self.collection = collection
        self.dtype = "float64" if collection == "layers" else dtype

    def build(
        self, networks: Networks, images: Images, batch_size: int = 1, seed: int = 0, *, workers: int = 1
    ) -> list[Handle]:
        """Compute the statistics that are missing and return one handle per network, in the given order.

        If the statistics of a network cannot be collected, its handle says why. The failure is recorded, and the
        network is not tried again until the record is deleted. A run that is killed loses only unfinished networks.

        Args:
            networks: Networks, each as a space and an index.
            images: Data set of the probe batch; the networks are built for its task.
            batch_size: Number of images in the probe batch.
            seed: Seed of the probe batch, the weights and the noise.
            workers: Number of worker processes, of one thread each, at least 1; it does not change the files.

        Raises:
            ConfigError: The batch size is not possible.
            ResultsError: A file is torn or has another recipe, a worker dies, or the folder cannot be written.
        """
        jobs = self._jobs(networks, images, batch_size, seed)
        missing = {job.path: job for job in jobs if not job.path.exists() and not job.record.exists()}
        if missing:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                _run(list(missing.values()), min(workers, len(missing)))
            except OSError as error:
                raise ResultsError(
                    f"statistics: cannot write to {self.folder} ({error.strerror}): choose another folder"
                ) from None
        return [job.handle() for job in jobs]

    def _jobs(self, networks: Networks, images: Images, batch_size: int, seed: int) -> list[_Job]:
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
                "version": layers.VERSION if self.collection == "layers" else VERSION,
                "torch": torch.__version__,
            }
            jobs.append(_Job(self.folder, json.dumps(recipe, sort_keys=True), space, images.task, batch.x, batch.y))
        return jobs


@dataclass(frozen=True)
class _Job:
    """A network whose statistics are to be collected."""

    folder: Path
    recipe: str
    space: Space
    task: Task
    x: Tensor
    y: Tensor | None

    @property
    def path(self) -> Path:
        return self.folder / f"{self._key}.safetensors"

    @property
    def record(self) -> Path:
        """Path of the record of a failure."""
        return self.folder / f"{self._key}.json"

    @property
    def _key(self) -> str:
        return hashlib.sha256(self.recipe.encode()).hexdigest()[:32]

    def handle(self) -> Handle:
        """Return a handle of the file or of the record of a failure."""
        if self.path.exists():
            _map(self.path, self.recipe)
            return Handle(self.path, self.recipe)
        return Handle(self.record, self.recipe, _read_record(self.record, self.recipe))

    def run(self) -> _Stamp | None:
        """Compute and write the statistics and return the file's stamp, or record the failure and return None."""
        recipe = json.loads(self.recipe)
        collection = recipe["collection"]
        try:
            net = self.space.build(recipe["architecture"], self.task, recipe["seed"])
            x = self.x.contiguous(memory_format=self.space.memory_format)
            need = LayerTable() if collection == "layers" else Collected(collection=collection)
            probe = Probe(net, x, self.y, seed=recipe["seed"], plan=[need])
            found = probe.read(need)
            statistics = found if isinstance(found, Statistics) else _one_instance(found)
        except Exception as error:  # a network that fails must not stop the others
            expected = isinstance(error, NotApplicableError | NotFiniteError)
            message = one_line(str(error) if expected else f"{type(error).__name__}: {error}")
            write_atomically(self.record, json.dumps({"recipe": recipe, "failure": message}, indent=1).encode())
            return None
        del net, probe
        dtype = getattr(torch, recipe["dtype"])
        tensors = {
            f"{terminal}/{place}": tensor.to(dtype)
            for place, group in enumerate(statistics.groups)
            for terminal, tensor in group.tensors.items()
        }
        places = [group.places for group in statistics.groups]
        document = {"recipe": recipe, "places": places, "crc32": _checksum(recipe, places, tensors)}
        write_atomically(self.path, *_file(document, tensors))
        return _stamp(self.path)


def _names(collection: str) -> tuple[str, ...]:
    """Return the names of the tensors of a collection."""
    return tuple(layers.COLUMNS) if collection == "layers" else TERMINALS


def _one_instance(table: Mapping[str, Tensor]) -> Statistics:
    return Statistics(1, (Group({name: column[None] for name, column in table.items()}, (0,)),))


#: Jobs of this process. A job is too large to be sent to a worker for every network, so only its position is sent.
_JOBS: list[_Job] = []


def _run(jobs: Sequence[_Job], count: int) -> None:
    title = f"collecting statistics of {len(jobs)} networks on {count} worker(s)"
    with Progress(title, len(jobs)) as progress, Workers(count, _share, jobs) as workers:
        for stamp in workers.map(_run_one, list(range(len(jobs)))):
            if stamp:  # a file that has just been written needs no check
                _CHECKED.add(stamp)
            progress.advance(1)


def _share(jobs: Sequence[_Job]) -> None:
    _JOBS[:] = jobs


def _run_one(place: int) -> _Stamp | None:
    return _JOBS[place].run()


_KEY = "zcbench"
_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F64": torch.float64}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
#: Stamps of the files that this process has written or whose checksum it has compared.
_CHECKED: set[_Stamp] = set()


def _file(document: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Iterator[memoryview]:
    """Yield the content of a safetensors file, without the copy of all tensors that `safetensors.torch.save` makes."""
    header: dict[str, Any] = {"__metadata__": {_KEY: json.dumps(document)}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight bytes
    yield memoryview(len(text).to_bytes(8, "little") + text)
    yield from map(_bytes, tensors.values())


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.flatten().view(torch.uint8).numpy().data


def _map(path: Path, recipe: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the metadata and the mapped tensors of a file; everything is checked except the numbers.

    `safetensors.safe_open` is not used because it touches every tensor, so that most of the file takes memory.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > size:
                raise ValueError("its header is not complete")
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
        names = _names(document["recipe"]["collection"])
        counts = {f"{t}/{g}": len(places) for g, places in enumerate(document["places"]) for t in names}
        if {name: len(tensor) for name, tensor in tensors.items()} != counts:
            raise ValueError("its tensors do not fit its instances")
        if document["recipe"] != json.loads(recipe):
            raise ValueError("it has another recipe")
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError) as error:
        raise _unusable(path, str(error)) from None
    return document, tensors


def _check(path: Path, recipe: str) -> None:
    """Compare the checksum of a file once per process, and unmap it, so that the tensors take no memory afterwards."""
    if (stamp := _stamp(path)) not in _CHECKED:
        document, tensors = _map(path, recipe)
        if document.get("crc32") != _checksum(document["recipe"], document["places"], tensors):
            raise _unusable(path, "its checksum differs")
        _CHECKED.add(stamp)


def _stamp(path: Path) -> _Stamp:
    try:
        stat = path.stat()
    except OSError as error:
        raise _unusable(path, str(error)) from None
    return path, stat.st_size, stat.st_mtime_ns


def _checksum(recipe: Any, places: Any, tensors: Mapping[str, Tensor]) -> int:
    """Return the CRC-32 of the content of a file; it runs at 2.6 GB/s, a SHA-256 at 1.1 GB/s."""
    layout = {name: (str(tensor.dtype), list(tensor.shape)) for name, tensor in tensors.items()}
    crc = zlib.crc32(json.dumps([recipe, places, layout], sort_keys=True).encode())
    for _, tensor in sorted(tensors.items()):
        crc = zlib.crc32(_bytes(tensor), crc)
    return crc


def _read_record(path: Path, recipe: str) -> str:
    try:
        record = json.loads(path.read_text("utf-8"))
        if record["recipe"] != json.loads(recipe):
            raise ValueError("it has another recipe")
        return str(record["failure"]) or "unknown"
    except (OSError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise _unusable(path, str(error)) from None


def _unusable(path: Path, why: str) -> ResultsError:
    return ResultsError(f"statistics {path} are unusable ({one_line(why)[:120]}): delete the file and build it again")
