"""Panels: what one proxy says of the networks at one batch size. Scores by seed, coefficients, and their resamples."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import ResultsError
from ..stats.bootstrap import resamples
from ..stats.correlation import SeedCorrelations, correlate_seeds
from ..stats.ranks import Matrix, Vector
from ..study.recipe import Recipe

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Panel:
    """The scores of one proxy at one batch size.

    Attributes:
        batch_size: Number of images in the probe batch; 0 for a proxy without a batch.
        seeds: Seeds, one for every column.
        scores: `(n, seeds)`, NaN where there is none.
        asked: `(n, seeds)`, where a score was asked for: not everywhere if each seed has networks of its own, or if the
            proxy scores the first networks alone.
        higher_is_better: Whether the highest scores are the top.
    """

    proxy: str
    version: int
    batch_size: int
    seeds: tuple[int, ...]
    scores: Matrix
    asked: NDArray[np.bool_]
    higher_is_better: bool

    @property
    def sign(self) -> int:
        """1 or -1: coefficients multiplied by it are positive where the proxy ranks as it claims."""
        return 1 if self.higher_is_better else -1

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Where there is a finite score `(n, seeds)`."""
        return np.isfinite(self.scores)


@dataclass(frozen=True)
class Measured(SeedCorrelations):
    """A panel with its coefficients and their resamples, seed by seed. All results of a panel come from this record."""

    panel: Panel


def measure(panel: Panel, truth: Vector, weights: Matrix) -> Measured:
    """Correlate the scores of every seed with accuracies, and those of every resample.

    Args:
        panel: Scores `(n, seeds)`.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    return Measured(**vars(correlate_seeds(panel.scores, truth, weights)), panel=panel)


@dataclass(frozen=True)
class Sample:
    """Networks with their accuracies, and the scores that proxies gave them.

    Attributes:
        networks: Networks with an accuracy.
        truth: Accuracies of the networks `(n,)`, finite.
        weights: `(resamples, n)`, multiplicities.
        panels: Scores, by proxy and batch size.
        classes: Class of every network, empty if the space knows of no classes.
    """

    networks: tuple[str, ...]
    truth: Vector
    weights: Matrix
    panels: tuple[Panel, ...]
    classes: tuple[int, ...] = ()

    @functools.cached_property
    def measured(self) -> list[Measured]:
        """Every panel with its coefficients, computed once."""
        return in_threads(functools.partial(measure, truth=self.truth, weights=self.weights), self.panels)

    def label(self, panel: Panel) -> str:
        """Return a name that no other panel of the sample has."""
        alike = [other for other in self.panels if other.proxy == panel.proxy]
        version = f" v{panel.version}" if len({other.version for other in alike}) > 1 else ""
        batch = f" @{panel.batch_size}" if len({other.batch_size for other in alike}) > 1 else ""
        return f"{panel.proxy}{version}{batch}"


def by_panel(rows: pd.DataFrame) -> Iterator[tuple[str, int, pd.DataFrame]]:
    """Yield proxy, batch size and rows of every panel, in the order of their first rows."""
    for key, group in rows.groupby(["proxy", "batch_size"], sort=False):
        proxy, batch_size = cast("tuple[str, int]", key)
        yield proxy, int(batch_size), group


def of_recipe(recipe: Recipe, rows: pd.DataFrame) -> Sample:
    """Return the sample of a recipe: the networks with an accuracy, and a panel for every proxy and batch size.

    Args:
        recipe: Recipe of the scores.
        rows: Scores of the recipe, from `ranking.select`, and those of baselines if there are any.
    """
    known = np.isfinite(recipe.values)
    panels = []
    for proxy, batch_size, group in by_panel(rows):
        table = group.pivot(index="architecture", columns="seed", values="value")
        asked = pd.Index(recipe.architectures).isin(table.index)[known]
        scores = table.reindex(recipe.architectures).to_numpy(dtype=np.float64)[known]
        panels.append(
            Panel(
                proxy=proxy,
                version=int(group["version"].iloc[0]),
                batch_size=batch_size,
                seeds=tuple(map(int, table.columns)),
                scores=scores,
                asked=np.repeat(asked[:, None], scores.shape[1], axis=1),
                higher_is_better=proxy not in recipe.lower,
            )
        )
    panels.sort(key=lambda panel: (panel.proxy, panel.batch_size))
    networks = tuple(name for name, keep in zip(recipe.architectures, known, strict=True) if keep)
    weights = resamples(len(known), recipe.resamples, classes=recipe.classes or None)[:, known]
    classes = tuple(itertools.compress(recipe.classes, known))
    return Sample(networks, recipe.values[known], weights, tuple(panels), classes)


def union(samples: Sequence[Sample]) -> Sample:
    """Return one sample of all networks of several samples that have different seeds.

    A network that a seed has not drawn has no score of this seed, and is not part of its coefficients. Resamples are
    drawn from all networks, so a network that several seeds have drawn stays one cluster.

    Raises:
        ResultsError: A network has two accuracies.
    """
    truth: dict[str, float] = {}
    for sample in samples:
        for network, accuracy in zip(sample.networks, sample.truth.tolist(), strict=True):
            if truth.setdefault(network, accuracy) != accuracy:
                raise ResultsError(
                    f"results: network {network} has accuracy {truth[network]} in one run and {accuracy} in another of "
                    "the same name: delete the record of the wrong run"
                )
    networks = tuple(sorted(truth))
    place = {network: row for row, network in enumerate(networks)}
    rows = [np.asarray([place[network] for network in sample.networks], dtype=np.intp) for sample in samples]
    pieces = [(panel, own) for sample, own in zip(samples, rows, strict=True) for panel in sample.panels]

    def of(piece: tuple[Panel, Any]) -> tuple[str, int, int]:
        return piece[0].proxy, piece[0].batch_size, piece[0].version

    panels = [_joined(list(group), len(networks)) for _, group in groupby(sorted(pieces, key=of), key=of)]
    count = max(len(sample.weights) for sample in samples)
    values = np.asarray([truth[network] for network in networks], dtype=np.float64)
    labels = {
        network: label for sample in samples for network, label in zip(sample.networks, sample.classes, strict=False)
    }
    classes = tuple(labels[network] for network in networks) if labels else ()
    return Sample(networks, values, resamples(len(networks), count, classes=classes or None), tuple(panels), classes)


def _joined(pieces: Sequence[tuple[Panel, NDArray[np.intp]]], n: int) -> Panel:
    """Return one panel of n networks from panels with different seeds and the rows of their networks."""
    seeds = [seed for panel, _ in pieces for seed in panel.seeds]
    scores = np.full((n, len(seeds)), np.nan)
    asked = np.zeros(scores.shape, dtype=bool)
    column = 0
    for panel, rows in pieces:
        columns = slice(column, column := column + len(panel.seeds))
        scores[rows, columns], asked[rows, columns] = panel.scores, panel.asked
    order = np.argsort(seeds)
    return dataclasses.replace(pieces[0][0], seeds=tuple(sorted(seeds)), scores=scores[:, order], asked=asked[:, order])


def common_seeds(first: Panel, second: Panel) -> Iterator[tuple[int, int]]:
    """Yield the columns of both panels for every seed that both have."""
    for column, seed in enumerate(first.seeds):
        if seed in second.seeds:
            yield column, second.seeds.index(seed)


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the results in the order of the items; NumPy works outside of Python's lock."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))
