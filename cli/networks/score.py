"""Score one network with every proxy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from ...bench.study.config import listed
from ...errors import ArchitectureError, ConfigError
from ...plugins import load, named
from ..parser import Parser, add_shared, values_of
from ..run import register_programs
from ..terminal import show, table, waiting
from .factories import build

if TYPE_CHECKING:
    import torch
    from torch import nn

    from ...datasets import Images, ProbeBatch


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "network",
        nargs="?",
        help="MODULE:FACTORY, a function without arguments that returns a torch.nn.Module. Its output is logits or has "
        "them by the name logits; or a FILE.json that `zcbench search` has written.",
    )
    parser.add_argument("--space", default="nb201", help="The benchmark space of --arch.")
    parser.add_argument("--arch", help="The text or the index of a network of the space.")
    parser.add_argument("--dataset", default="cifar10-samples", help="The data set of the probe batch.")
    parser.add_argument(
        "--datamodule",
        default="",
        help="MODULE:CLASS, a LightningDataModule that gives the images; --dataset then names the task of --arch.",
    )
    parser.add_argument(
        "--datamodule_args", type=dict[str, Any], default={}, help="The arguments of the data module by name."
    )
    parser.add_argument("--batch_size", type=int, default=16, help="The number of images in the probe batch.")
    parser.add_argument("--seed", type=int, default=0, help="The seed of the initialisation, the images and the noise.")
    parser.add_argument("--proxies", type=list[str] | str, default=[], help="The names of proxies; by default all.")
    add_shared(parser, "program", "data", "include")
    parser.add_argument("--json", action="store_true", help="Print the scores as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """Build the network, score it and print the scores."""
    with waiting("loading torch"):
        import torch

        from ...datasets import data_folder
        from ...datasets.datamodule import images_of
        from ...proxies import PROXIES
        from ...proxies.aggregate import only_proxies
        from ...proxies.registry import score_all

    (given,) = parsed
    torch.set_num_threads(1)  # as in a study: sums keep their order, so the digits are the same
    if not 0 <= given.seed < 2**32:
        raise ConfigError(f"seed: expected 0 to {2**32 - 1}, got {given.seed}")
    load(listed(given.include))
    programs = register_programs(given.program)
    names = values_of(given, "proxies")
    proxies = only_proxies([*names, *programs] if names else PROXIES)
    images = images_of(given.dataset, given.datamodule, given.datamodule_args, data_folder(given.data))
    net, memory_format = _network(given, images)
    batch = _batch(given, images)
    x = batch.x.contiguous(memory_format=memory_format)
    with waiting(f"scoring with {len(proxies)} proxies"):
        scores = score_all(net, x, batch.y, proxies, seed=given.seed)
    failed = int(any(s.status == "error" for s in scores))
    if given.json:
        values = [vars(s) | {"value": s.value if s.status == "ok" else None} for s in scores]
        print(json.dumps({"batch_hash": batch.hash, "seed": given.seed, "scores": values}, indent=1))
        return failed
    title = f"batch {given.batch_size} of {images.name}"
    shown = table("proxy", "score", "status", "ms", title=title)
    for s in scores:
        shown.add_row(s.proxy, f"{s.value:.6g}", f"{s.status} {s.message}".strip(), f"{1000 * s.wall_s:.1f}")
    show(shown)
    return failed


def _network(given: Namespace, images: Images) -> tuple[nn.Module, torch.memory_format]:
    """Return the network, and the memory layout of its images: that of its space, or the usual one."""
    if bool(given.network) == (given.arch is not None):
        raise ConfigError("score: expected either MODULE:FACTORY or --arch, e.g. zcbench score my_nets:build")
    if given.network and given.network.endswith(".json"):
        return _from_description(Path(given.network), given.seed)
    import torch

    if given.network:
        make = named(given.network, "score", "FACTORY")
        return build(make, f"score: {given.network}", given.seed), torch.contiguous_format
    from ...spaces import SPACES

    space = SPACES[given.space](images.folder)
    try:
        return space.build(given.arch, images.task, given.seed), space.memory_format
    except ArchitectureError:
        if not (given.arch.isascii() and given.arch.isdecimal()):
            raise
    return space.build(space.architecture(int(given.arch)), images.task, given.seed), space.memory_format


def _batch(given: Namespace, images: Images) -> ProbeBatch:
    """Return the images; those of a data module may have any size if the network is of no space."""
    from ...datasets.datamodule import batch_of_class

    if given.network and given.datamodule:
        return batch_of_class(given.datamodule, given.datamodule_args, given.batch_size, given.seed)
    return images.probe_batch(given.batch_size, given.seed)


def _from_description(path: Path, seed: int) -> tuple[nn.Module, torch.memory_format]:
    """Build the network of a file, with the seed of the study."""
    import torch

    from ...spaces.description import read

    description = read(path)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return description.network(), description.memory_format
