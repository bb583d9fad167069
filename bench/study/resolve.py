"""The plan of a study: names of its configuration are looked up, files are read, and numbers are checked."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...content import content_of
from ...datasets import Images, ProbeBatch, data_folder
from ...datasets.datamodule import images_of
from ...engine import on_gpu
from ...environment import device_class, device_text, torch_release
from ...errors import AbsentFileError, ConfigError
from ...plugins import load
from ...proxies import AGGREGATES, PROXIES, Proxy
from ...proxies.aggregate import Aggregate, split
from ...proxies.registry import Card
from ...spaces import SPACES, Space, Truth
from .config import ALL, CONFIG_VERSION, PROTOCOL, StudyConfig, distinct, is_all, listed
from .recipe import Recipe, Work


def named(config: StudyConfig) -> list[str]:
    """Return the names of the proxies and aggregates of a study, in the order of its configuration.

    With `all`, those are left out that score no network by `sample_of`, and the aggregates that read them.

    Raises:
        ConfigError: There are none, one occurs twice, one that is named scores no network, or `all` stands beside
            others.
    """
    without = {name for name, count in config.sample_of.items() if count == 0}
    if is_all(config.proxies):
        aggregates = [name for name in AGGREGATES if without.isdisjoint(AGGREGATES[name].members)]
        return [*(name for name in PROXIES if name not in without), *aggregates]
    if not (names := listed(config.proxies)):
        raise ConfigError(f"proxies: expected at least one name, or {ALL}, got none")
    if ALL in names and ALL not in PROXIES:
        raise ConfigError(f"proxies: expected {ALL} alone, or names, got {', '.join(names)[:80]}")
    for name in names:
        members = AGGREGATES[name].members if name in AGGREGATES else (name,)
        if none := without.intersection(members):
            raise ConfigError(
                f"sample_of: expected 1 or more networks for {min(none)}, which {name} is or reads, got 0"
            )
    return distinct("proxies", names)


@dataclass(frozen=True)
class Study:
    """A study that is ready to run.

    Attributes:
        images: Images of the data set or of the data module.
        truth: Accuracies of the whole space.
        indices: Indices of the sample in the space.
        work: Proxies that every network is scored by, with seed and batch size.
        batches: Probe batch, by (batch size, seed).
        code: Digest of the code of zcbench if scores of other code are not reused, empty otherwise.
    """

    config: StudyConfig
    space: Space
    images: Images
    truth: Truth
    indices: tuple[int, ...]
    work: tuple[Work, ...]
    batches: Mapping[tuple[int, int], ProbeBatch]
    code: str = ""

    @property
    def out(self) -> Path:
        """The results folder."""
        return Path(self.config.out)

    @property
    def proxies(self) -> list[Proxy]:
        """The proxies to compute, in the order of the configuration; members of aggregates come last."""
        return split(named(self.config))[0]

    @property
    def aggregates(self) -> list[Aggregate]:
        """The aggregates, in the order of the configuration."""
        return split(named(self.config))[1]

    @property
    def cards(self) -> list[Card]:
        """The cards of all proxies and aggregates."""
        return [*self.proxies, *self.aggregates]

    @property
    def device(self) -> str:
        """The device and the precision as text: part of the key of a score."""
        return device_text("cuda" if self.on_gpu else "cpu", self.config.precision)

    @property
    def written(self) -> Recipe:
        """The recipe of the scores that this machine computes."""
        return dataclasses.replace(self.recipe, device=self.device)

    @property
    def on_gpu(self) -> bool:
        """Whether networks are scored on a GPU."""
        wanted = self.config.device
        return wanted == "cuda" or (wanted == "auto" and torch.cuda.is_available())

    @property
    def classes(self) -> tuple[int, ...]:
        """The class of every network; nothing if the space knows of no classes."""
        if type(self.space).representative is Space.representative:
            return ()
        return tuple(map(self.space.representative, self.indices))

    @property
    def sample_of(self) -> dict[str, int]:
        """The number of networks of the proxies that do not score all."""
        wanted = {proxy.name: self.config.sample_of.get(proxy.name, len(self.indices)) for proxy in self.proxies}
        return {name: count for name, count in wanted.items() if count < len(self.indices)}

    @property
    def is_census(self) -> bool:
        """Whether every proxy scores all that the space defines, with an accuracy each: nothing is left to sample."""
        whole = self.space.is_exhaustive and len(self.indices) == self.space.size
        return bool(whole and np.isfinite(self.truth.values).all() and not self.sample_of)

    def part(self, networks: Container[str]) -> Study:
        """Return the study of its proxies and of those of its networks that are among some others.

        A proxy that scores none of these is left out.
        """
        left = self.recipe.part(networks)
        names = [proxy.name for proxy in self.proxies if left.networks_of(proxy.name)]
        few = {name: count for name, count in left.sample_of.items() if count}
        work = [Work(w.seed, w.batch_size, tuple(name for name in w.proxies if name in names)) for w in self.work]
        return dataclasses.replace(
            self,
            config=dataclasses.replace(self.config, proxies=names, sample_of=few),
            indices=tuple(map(self.space.index, left.architectures)),
            work=tuple(w for w in work if w.proxies),
        )

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The recipe of its scores, which is enough to rank the scores of a store."""
        return Recipe(
            space=self.space.name,
            dataset=self.images.name,
            truth=self.truth.name,
            label=self.truth.label,
            protocol=f"{PROTOCOL} representatives" if self.config.representatives else PROTOCOL,
            device=self.device if self.config.machines == "this" else device_class(self.device),
            torch=torch_release(),
            accuracies={self.space.architecture(i): float(self.truth.values[i]) for i in self.indices},
            work=self.work,
            batches={key: batch.hash for key, batch in self.batches.items()},
            versions={card.name: card.version for card in self.cards},
            lower=tuple(card.name for card in self.cards if card.direction == "lower"),
            aggregates=tuple(card.name for card in self.aggregates),
            batch_sizes=tuple(listed(self.config.batch_sizes)),
            resamples=0 if self.is_census else self.config.resamples,
            classes=self.classes,
            content={
                proxy.name: digest
                for proxy in self.proxies
                if (digest := content_of(proxy.function, self.space, self.images) + self.code)
            },
            sample_of=self.sample_of,
        )


def resolve(config: StudyConfig, *, ranked: bool = True) -> Study:
    """Turn a configuration into a study. Nothing is written.

    Args:
        config: The configuration.
        ranked: Whether the study ranks networks; a search that only scores them needs no accuracies.

    Raises:
        ZcbenchError: A setting is wrong, or a file is absent or faulty.
    """
    if config.version != CONFIG_VERSION:
        raise ConfigError(f"version: expected {CONFIG_VERSION}, got {config.version}")
    folder = data_folder(config.data)
    load(listed(config.include))
    seeds = distinct("seeds", listed(config.seeds))
    space = SPACES[config.space](folder)
    proxies, _ = split(named(config))
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32:
        raise ConfigError(f"seeds: expected at least one, each 0 to {2**32 - 1}, got {seeds}")
    if config.resamples < 1:
        raise ConfigError(f"resamples: expected 1 or more, got {config.resamples}")
    for name, least in (("workers", 1), ("tries", 1), ("limit_s", 0), ("memory_mib", 0), ("gpus", 0)):
        if not (value := getattr(config, name)) >= least:  # NaN is refused too
            raise ConfigError(f"{name}: expected {least} or more, got {value}")
    if not re.fullmatch(r"local|ray|ray://[^/:]+:\d+", config.engine):
        raise ConfigError(f"engine: expected local, ray or ray://HOST:PORT, got {config.engine}")
    on_gpu(config.device)
    if not 0 <= config.sample_seed < 2**32:
        raise ConfigError(f"sample_seed: expected 0 to {2**32 - 1}, got {config.sample_seed}")
    if config.representatives and type(space).representative is Space.representative:
        raise ConfigError(f"representatives: {space.name} knows of no classes of equal networks: leave the setting out")
    _check_sample_of(config.sample_of)
    indices = _drawn(space, config)
    images = images_of(config.dataset, config.datamodule, config.datamodule_args, folder)
    work = work_items(proxies, distinct("batch_sizes", listed(config.batch_sizes)), seeds)
    try:
        batches = {(w.batch_size, w.seed): images.probe_batch(w.batch_size, w.seed) for w in work}
    except ConfigError as error:
        if listed(config.batch_sizes):
            raise
        raise ConfigError(f"{error}, the batch size of the protocol of a proxy: give --batch_sizes") from None
    if ranked:
        truth = space.truth(images.task.name, config.accuracy)
    else:
        truth = Truth(f"{images.task.name}/none", "no accuracies", np.full(space.size, np.nan))
    return Study(config, space, images, truth, tuple(indices), work, batches)


def _check_sample_of(counts: Mapping[str, int]) -> None:
    """Refuse numbers of networks of single proxies that cannot be.

    Raises:
        ConfigError: A number is below 0, or its name is that of an aggregate.
        UnknownNameError: There is no proxy of that name.
    """
    for name, count in counts.items():
        if name in AGGREGATES:
            raise ConfigError(f"sample_of: expected proxies, got the aggregate {name}: name its members")
        PROXIES[name]
        if type(count) is not int or count < 0:
            raise ConfigError(f"sample_of: expected 0 or more networks for {name}, got {count}")


def _drawn(space: Space, config: StudyConfig) -> list[int]:
    """Return the indices of the networks of a study.

    Raises:
        ConfigError: There are not so many.
    """
    if config.sample < 0:
        raise ConfigError(
            f"sample: expected 1 to {space.size} networks of {space.name}, or 0 for all, got {config.sample}"
        )
    return space.sample(config.sample or space.size, config.sample_seed)


def resolve_recipe(recipe: Recipe, proxies: Sequence[str], **settings: Any) -> Study:
    """Return the study that scores the networks of a recipe by some proxies, on the same images.

    Args:
        recipe: Recipe of the networks, images, seeds and accuracies.
        proxies: Names of the proxies.
        settings: Other settings of the study, such as `out` and `workers`.

    Raises:
        ConfigError: The accuracies or the images here are not those of the recipe, or the release of torch.
        ZcbenchError: A file is absent or faulty.
    """
    own = StudyConfig(
        space=recipe.space,
        dataset=recipe.dataset,
        accuracy=recipe.truth.split("/", 1)[1],
        proxies=list(proxies),
        sample=1,
        representatives="representatives" in recipe.protocol,
        batch_sizes=list(recipe.batch_sizes),
        seeds=recipe.seeds,
        precision="float64" if recipe.device.endswith("float64") else "float32",
        machines="any" if recipe.device == device_class(recipe.device) else "this",
        device="cuda" if recipe.device.startswith("cuda") else "cpu",
        resamples=recipe.resamples or 1000,
        sample_of={name: count for name, count in recipe.sample_of.items() if name in proxies},
        tracker="none",
    )
    study = resolve(dataclasses.replace(own, **settings))
    study = dataclasses.replace(study, indices=tuple(map(study.space.index, recipe.architectures)))
    here = study.recipe
    for name, mine, theirs in (
        ("torch", here.torch, recipe.torch),
        ("protocol", here.protocol, recipe.protocol),
        ("device", here.device, recipe.device),
    ):
        if mine != theirs:
            raise ConfigError(f"{name}: expected {theirs}, that of the board, got {mine}")
    if not np.array_equal(here.values, recipe.values, equal_nan=True):
        raise ConfigError(
            f"accuracy: expected the values of {recipe.truth} that the board has, got others: get the same files"
        )
    for key, digest in here.batches.items():
        if recipe.batches.get(key, digest) != digest:
            raise ConfigError(
                f"dataset: expected images of {recipe.dataset} with the digest {recipe.batches[key]}, got {digest}: "
                "get the same files"
            )
    return study


def absent_sources(recipe: Recipe, data: str | None) -> tuple[str, ...]:
    """Return the names of the data sources of which a recipe needs a file that is absent.

    Raises:
        ZcbenchError: A file is faulty.
    """
    folder = data_folder(data)
    found: dict[str, None] = {}
    for read in (
        lambda: SPACES[recipe.space](folder).size,
        lambda: SPACES[recipe.space](folder).truth(*recipe.truth.split("/", 1)),
        lambda: images_of(recipe.dataset, "", {}, folder).probe_batch(1, 0),
    ):
        try:
            read()
        except AbsentFileError as error:
            found |= dict.fromkeys(error.sources)
    return tuple(found)


def work_items(proxies: Sequence[Proxy], batch_sizes: Sequence[int], seeds: Sequence[int]) -> tuple[Work, ...]:
    """Group proxies by seed and batch size.

    If there are no batch sizes, every proxy has the batch size of its protocol.
    """
    sizes = list(batch_sizes) or sorted({proxy.batch_size for proxy in proxies})
    return tuple(
        Work(seed, size, names)
        for seed in seeds
        for size in sizes
        if (names := tuple(p.name for p in proxies if batch_sizes or p.batch_size == size))
    )
