"""Rank networks of your own: one table of their sizes, what proxies say of each, and the mean rank."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from ...bench.study.config import listed
from ...errors import ConfigError
from ...plugins import load
from ..parser import Parser, add_shared, values_of
from ..run import register_programs
from ..terminal import show, table, waiting
from .factories import build, networks

if TYPE_CHECKING:
    from torch import nn

    from ...datasets import ProbeBatch
    from ...proxies.rank import Ranked, Scored

#: Images of the probe batch if none are named: they come with the package foolbox.
IMAGES, SIDE = "cifar10-samples", 224


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "networks",
        nargs="+",
        help="Python files, or MODULE:NAME. A file has a dictionary `networks` from names to modules or to functions "
        "that return them; in a file without it, every public function without arguments is one.",
    )
    parser.add_argument(
        "--size",
        type=int,
        help=f"The side of the images in pixels; by default {SIDE} with --images, and else that of the data set.",
    )
    parser.add_argument("--dataset", default="", help=f"The data set of the images; by default {IMAGES}.")
    parser.add_argument("--images", default="", help="A folder of images; folders in it are the classes.")
    parser.add_argument("--datamodule", default="", help="MODULE:CLASS, a LightningDataModule that gives the images.")
    parser.add_argument(
        "--datamodule_args", type=dict[str, Any], default={}, help="The arguments of the data module by name."
    )
    parser.add_argument(
        "--classes", type=int, default=0, help="The number of classes of the networks; labels are taken modulo it."
    )
    parser.add_argument("--batch_size", type=int, default=16, help="The number of images in the probe batch.")
    parser.add_argument("--seed", type=int, default=0, help="The seed of the weights, the images and the noise.")
    parser.add_argument(
        "--proxies",
        type=list[str] | str,
        default=[],
        help="The names of proxies and aggregates; by default the cheap synflow, jacob_cov, naswot, snip and zico.",
    )
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda", "auto"],
        default="cpu",
        help="Where networks are scored; auto is cuda where there is a GPU. Workers take the GPUs in turn.",
    )
    parser.add_argument("--workers", type=int, default=1, help="The number of worker processes.")
    parser.add_argument("--limit_s", type=float, default=3600.0, help="Seconds after which a network is given up.")
    parser.add_argument("--memory_mib", type=int, default=0, help="Memory in MiB that one network may take, 0 for any.")
    add_shared(parser, "program", "data", "include")
    parser.add_argument(
        "--format", choices=["table", "csv"], default="table", help="The form of the result: csv has the scores."
    )
    parser.add_argument("--json", action="store_true", help="Print scores, statuses and ranks as JSON.")


@dataclass(frozen=True)
class Asked:
    """What worker processes have to know."""

    networks: tuple[str, ...]
    include: tuple[str, ...]
    programs: tuple[str, ...]
    proxies: tuple[str, ...]
    batch: ProbeBatch
    seed: int
    gpu: bool


_asked: list[Asked] = []


def main(parsed: Sequence[Namespace]) -> int:
    """Score every network in a worker process, and print the table; return 4 if a network failed as a whole."""
    with waiting("loading torch"):
        from ...engine import Limits, Workers, on_gpu
        from ...progress import Progress
        from ...proxies.rank import CHEAP, Ranked, to_compute

    (given,) = parsed
    if not 0 <= given.seed < 2**32:
        raise ConfigError(f"seed: expected 0 to {2**32 - 1}, got {given.seed}")
    gpu = on_gpu(given.device)
    load(listed(given.include))
    programs = register_programs(given.program)
    names = tuple(dict.fromkeys([*(values_of(given, "proxies") or CHEAP), *programs]))
    to_compute(names)
    found = networks(given.networks, given.seed)
    batch = _batch(given)
    asked = Asked(
        tuple(given.networks), tuple(listed(given.include)), tuple(given.program), names, batch, given.seed, gpu
    )
    count = min(given.workers, len(found))
    results: dict[str, Scored] = {}
    with (
        Workers(count, prepare, asked, limits=Limits(given.limit_s, given.memory_mib)) as workers,
        Progress(f"ranking {len(found)} network(s) on {count} worker(s)", len(found)) as progress,
    ):
        for ended in workers.run(_score, list(found)):
            results[ended.job] = ended.value or _failed(ended.job, ended.status, ended.message)
            progress.advance(1)
    ranked = Ranked(tuple(results[name] for name in found), names)
    _print(given, ranked, batch)
    return 4 if any(each.failure for each in ranked.networks) else 0


def prepare(asked: Asked) -> None:
    """Keep what is asked for the jobs of this process."""
    load(asked.include)
    register_programs(asked.programs)
    _asked[:] = [asked]


def _score(name: str) -> Scored:
    """Build and score one network, in a worker process."""
    from ...engine import own_device
    from ...proxies.rank import scored, to_compute

    (asked,) = _asked
    factory = networks(asked.networks, asked.seed)[name]

    def make() -> nn.Module:
        return build(factory, name, asked.seed).to(own_device(asked.gpu))

    proxies = to_compute(asked.proxies)
    return scored(name, make, asked.batch.x, asked.batch.y, proxies, seed=asked.seed, moved=True)


def _failed(name: str, status: str, message: str) -> Scored:
    from ...proxies.rank import Scored

    return Scored(name, {}, failure=f"{status}: {message}")


def _batch(given: Namespace) -> ProbeBatch:
    """Return the images that all networks see."""
    from ...datasets import DATASETS, ProbeBatch, data_folder
    from ...datasets.datamodule import batch_of_class
    from ...datasets.folder import folder_batch, resized

    if len(sources := [name for name in ("dataset", "images", "datamodule") if given[name]]) > 1:
        raise ConfigError(f"{sources[1]}: expected one source of images, got --{' and --'.join(sources)}")
    if given.datamodule_args and not given.datamodule:
        raise ConfigError("datamodule_args: expected a datamodule that takes them, got none: add --datamodule")
    if given.classes < 0:
        raise ConfigError(f"classes: expected 1 or more, or 0 for any, got {given.classes}")
    if given.images:
        side = SIDE if given.size is None else given.size
        batch = folder_batch(Path(given.images), side, given.batch_size, given.seed)
    elif given.datamodule:
        batch = batch_of_class(given.datamodule, given.datamodule_args, given.batch_size, given.seed)
    else:
        images = DATASETS[given.dataset or IMAGES](data_folder(given.data))
        batch = images.probe_batch(given.batch_size, given.seed)
    if given.size is not None:
        batch = resized(batch, given.size)
    if given.classes and batch.y is not None:
        batch = ProbeBatch.of(batch.x, batch.y % given.classes)
    return dataclasses.replace(batch, x=batch.x.contiguous())  # the digits depend on the memory layout


def _print(given: Namespace, ranked: Ranked, batch: ProbeBatch) -> None:
    from rich.markup import escape

    if given.json:
        print(json.dumps(_records(ranked, batch), indent=1, allow_nan=False))
        return
    if given.format == "csv":
        print(ranked.table.to_csv(), end="")
    else:
        shown = table(
            "network", "params", "MACs", *ranked.proxies, "s", "mean rank", title=_title(ranked, batch), dense=True
        )
        for row in ranked.cells():
            shown.add_row(*map(escape, row))
        show(shown)
    for note in ranked.notes():
        print(note, file=sys.stderr if given.format == "csv" else sys.stdout)


def _title(ranked: Ranked, batch: ProbeBatch) -> str:
    count, *sides = batch.x.shape
    return f"{len(ranked.networks)} networks, {count} images of {' x '.join(map(str, sides))}; ranks, 1 is the best"


def _records(ranked: Ranked, batch: ProbeBatch) -> dict[str, Any]:
    """Return plain values; what is no finite number is null, and its status says why."""
    from ...proxies.rank import SIZES, status_of

    by = {proxy: ranked.ranks(proxy) for proxy in ranked.proxies}
    return {
        "batch_hash": batch.hash,
        "shape": list(batch.x.shape),
        "ranked_by": list(ranked.ranked_by),
        "networks": [
            {
                "network": each.name,
                **{size: _whole(ranked.values[size][place]) for size in SIZES},
                "wall_s": _plain(each.wall_s),
                "mean_rank": _plain(ranked.mean_rank[place]),
                "failure": each.failure,
                "scores": {
                    proxy: {
                        "value": _plain(ranked.values[proxy][place]),
                        "rank": _plain(by[proxy][place]),
                        "status": status_of(each, proxy),
                    }
                    for proxy in ranked.proxies
                },
            }
            for place, each in enumerate(ranked.networks)
        ],
    }


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None
