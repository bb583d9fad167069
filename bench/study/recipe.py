"""The recipe of the scores of a study. It is written beside every run, and is enough to rank stored scores again."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ResultsError, in_words

#: Identity of a score: scores with equal keys have equal values. Its parts are the first columns of a row of the store.
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Work:
    """The proxies that a network is scored by with one batch.

    Attributes:
        seed: Seed of images, initialisation and noise.
        batch_size: Number of images.
    """

    seed: int
    batch_size: int
    proxies: tuple[str, ...]


class Item(NamedTuple):
    """What one proxy scores every network by: all of a key but the network, and what a recipe has once."""

    batch_hash: str
    batch_size: int
    seed: int
    proxy: str
    version: int
    protocol: str


@dataclass(frozen=True)
class Recipe:
    """The resolved study as plain values: no images, no networks, no tables.

    Attributes:
        dataset: Name of the data set of the images.
        truth: Name of the accuracies (`cifar10/test-200`).
        label: Name of the accuracies in words.
        protocol: Version of what all scores have in common.
        device: Device and precision as text, see `environment.device_text`.
        torch: Release of torch, see `environment.torch_release`.
        accuracies: Accuracy of every network, in the order of the sample; NaN where there is none.
        work: Proxies that every network is scored by, with seed and batch size.
        batches: Hash of the images, by (batch size, seed).
        versions: Version of every proxy.
        lower: Names of the proxies of which a lower score is better.
        aggregates: Names of the aggregates, whose scores are computed from those of the proxies.
        resamples: Number of bootstrap resamples for the intervals; 0 for a census, which has no intervals.
        batch_sizes: Batch sizes of the configuration; empty for the batch size of the protocol of each proxy.
        classes: Class of every network, in the order of the sample; networks of one class are one function. Empty if
            the space knows of no classes.
        content: Digest of the user's own code behind a score, by proxy; proxies without such code are left out.
        sample_of: Number of networks of a proxy that scores the first ones alone; the other proxies score all.
    """

    space: str
    dataset: str
    truth: str
    label: str
    protocol: str
    device: str
    torch: str
    accuracies: Mapping[str, float]
    work: tuple[Work, ...]
    batches: Mapping[tuple[int, int], str]
    versions: Mapping[str, int]
    lower: tuple[str, ...]
    aggregates: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    resamples: int
    classes: tuple[int, ...] = ()
    content: Mapping[str, str] = field(default_factory=dict)
    sample_of: Mapping[str, int] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """The seeds, each once."""
        return list(dict.fromkeys(work.seed for work in self.work))

    @property
    def architectures(self) -> list[str]:
        """The texts of the networks, in the order of the sample."""
        return list(self.accuracies)

    @property
    def values(self) -> NDArray[np.float64]:
        """The accuracies of the networks `(n,)`."""
        return np.asarray(list(self.accuracies.values()), dtype=np.float64)

    def items(self) -> Iterator[Item]:
        """Yield what every network is scored by, in the order of the work."""
        return (self.item(work, proxy) for work in self.work for proxy in work.proxies)

    def item(self, work: Work, proxy: str) -> Item:
        """Return what one proxy scores every network by."""
        return Item(
            self.batches[work.batch_size, work.seed],
            work.batch_size,
            work.seed,
            proxy,
            self.versions[proxy],
            f"{self.protocol} own {self.content[proxy]}" if proxy in self.content else self.protocol,
        )

    def key(self, architecture: str, work: Work, proxy: str) -> Key:
        """Return the key that a score has in the store."""
        return self.key_of(architecture, self.item(work, proxy))

    def key_of(self, architecture: str, item: Item) -> Key:
        """Return the key that the score of an item has in the store."""
        return (self.space, architecture, self.dataset, *item, self.device, self.torch)

    def networks_of(self, proxy: str) -> int:
        """Return the number of networks that a proxy scores: the first of the sample."""
        return self.sample_of.get(proxy, len(self.accuracies))

    def keys(self) -> Iterator[Key]:
        """Yield the keys of all scores."""
        items = list(self.items())
        return (
            self.key_of(architecture, item)
            for place, architecture in enumerate(self.accuracies)
            for item in items
            if place < self.networks_of(item.proxy)
        )

    def part(self, networks: Container[str]) -> Recipe:
        """Return the recipe of the same scores for those of its networks that are among some others."""
        kept = [network in networks for network in self.accuracies]
        return dataclasses.replace(
            self,
            accuracies=dict(itertools.compress(self.accuracies.items(), kept)),
            classes=tuple(itertools.compress(self.classes, kept)),
            sample_of={proxy: sum(kept[:count]) for proxy, count in self.sample_of.items()},
        )

    def document(self) -> dict[str, Any]:
        """Return the recipe as JSON holds it, for `from_document` to read."""
        accuracies = dict(zip(self.accuracies, without_nan(self.accuracies.values()), strict=True))
        batches = {f"{size}/{seed}": digest for (size, seed), digest in self.batches.items()}
        return dataclasses.asdict(self) | {"accuracies": accuracies, "batches": batches}


def without_nan(values: Iterable[float]) -> list[float | None]:
    """Return values as JSON holds them, which has no NaN."""
    return [None if np.isnan(value) else float(value) for value in values]


def from_document(document: Mapping[str, Any], where: str) -> Recipe:
    """Read a recipe.

    Args:
        document: Recipe as JSON holds it.
        where: Name of the file for errors.

    Raises:
        ResultsError: A part is missing or of another kind.
    """
    try:
        values = {
            each.name: document[each.name]
            for each in dataclasses.fields(Recipe)
            if each.name not in {"content", "classes", "sample_of"}
        }
        values["classes"] = tuple(map(int, document.get("classes", ())))
        if values["classes"] and len(values["classes"]) != len(values["accuracies"]):
            raise ValueError(f"expected a class for each of {len(values['accuracies'])} networks")
        values["content"] = {str(k): str(v) for k, v in document.get("content", {}).items()}
        values["sample_of"] = {str(k): int(v) for k, v in document.get("sample_of", {}).items()}
        values["accuracies"] = {str(k): np.nan if v is None else float(v) for k, v in values["accuracies"].items()}
        values["work"] = tuple(Work(int(w["seed"]), int(w["batch_size"]), tuple(w["proxies"])) for w in values["work"])
        batches = ((*map(int, k.split("/")), str(v)) for k, v in values["batches"].items())
        values["batches"] = {(size, seed): digest for size, seed, digest in batches}
        values |= {name: tuple(values[name]) for name in ("lower", "aggregates", "batch_sizes")}
        recipe = Recipe(**values)
        for _ in zip(range(1), recipe.keys(), strict=False):
            return recipe
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ResultsError(
            f"{where} has no recipe that this zcbench reads ({in_words(error)}): run "
            "the study again; stored scores are not computed again"
        ) from None
    raise ResultsError(f"{where} has no networks: run the study again")
