"""Networks with their accuracies, and what proxies say of them: scores by seed, coefficients, and their resamples."""

from __future__ import annotations

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
from ..stats.coefficients import (
    Matrix,
    Vector,
    finite_columns,
    interval,
    kendall,
    mean_over_seeds,
    replicate,
    resamples,
    spearman,
)
from .board import Board

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Panel:
    """The scores of one proxy at one batch size.

    Attributes:
        proxy: Its name.
        version: Of the proxy.
        batch_size: Images in the probe batch; 0 for what needs none.
        seeds: One for every column.
        scores: `(n, seeds)`, NaN where there is none.
        asked: `(n, seeds)`, where one was asked for: where each seed has networks of its own, not everywhere.
        higher_is_better: Which end of the scores is their top.
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
        """By what coefficients are multiplied, so that positive is what the proxy claims."""
        return 1 if self.higher_is_better else -1

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Where there is a score `(n, seeds)`."""
        return np.isfinite(self.scores)


@dataclass(frozen=True)
class Sample:
    """Networks with their accuracies, and the scores that proxies gave them.

    Attributes:
        networks: Those with an accuracy.
        truth: Their accuracies `(n,)`, finite.
        weights: `(resamples, n)`, multiplicities.
        panels: By name and batch size.
    """

    networks: tuple[str, ...]
    truth: Vector
    weights: Matrix
    panels: tuple[Panel, ...]

    def label(self, panel: Panel) -> str:
        """Return a name that no other panel of the sample has."""
        alike = [other for other in self.panels if other.proxy == panel.proxy]
        version = f" v{panel.version}" if len({other.version for other in alike}) > 1 else ""
        batch = f" @{panel.batch_size}" if len({other.batch_size for other in alike}) > 1 else ""
        return f"{panel.proxy}{version}{batch}"


def of_board(board: Board, rows: pd.DataFrame) -> Sample:
    """Return the sample of a board.

    Args:
        board: What the scores are.
        rows: Its scores, as `summary.select_rows` gives them, and perhaps baselines.
    """
    recipe = board.recipe
    known = np.isfinite(recipe.values)
    panels = []
    for key, group in rows.groupby(["proxy", "batch_size"]):
        proxy, batch_size = cast("tuple[str, int]", key)
        scores = group.pivot(index="architecture", columns="seed", values="value").reindex(recipe.architectures)
        values = scores.to_numpy(dtype=np.float64)[known]
        panels.append(
            Panel(
                proxy=proxy,
                version=int(group["version"].iloc[0]),
                batch_size=int(batch_size),
                seeds=tuple(map(int, scores.columns)),
                scores=values,
                asked=np.ones(values.shape, dtype=bool),
                higher_is_better=proxy not in recipe.lower,
            )
        )
    networks = tuple(name for name, keep in zip(recipe.architectures, known, strict=True) if keep)
    weights = resamples(len(known), recipe.resamples)[:, known]
    return Sample(networks, recipe.values[known], weights, tuple(panels))


def union(samples: Sequence[Sample]) -> Sample:
    """Return one sample of all networks of several, whose seeds are different ones.

    A network that a seed has not drawn has no score of it and counts in none of its coefficients; resamples are drawn
    of all networks, so that one that several seeds have drawn stays one cluster.

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

    panels = []
    for (proxy, batch_size, version), group in groupby(sorted(pieces, key=of), key=of):
        own = list(group)
        seeds = tuple(seed for panel, _ in own for seed in panel.seeds)
        scores = np.full((len(networks), len(seeds)), np.nan)
        asked = np.zeros(scores.shape, dtype=bool)
        column = 0
        for panel, at in own:
            columns = slice(column, column := column + len(panel.seeds))
            scores[at, columns], asked[at, columns] = panel.scores, panel.asked
        order = np.argsort(seeds)
        panels.append(
            Panel(
                proxy=proxy,
                version=version,
                batch_size=batch_size,
                seeds=tuple(sorted(seeds)),
                scores=scores[:, order],
                asked=asked[:, order],
                higher_is_better=own[0][0].higher_is_better,
            )
        )
    count = max(len(sample.weights) for sample in samples)
    values = np.asarray([truth[network] for network in networks], dtype=np.float64)
    return Sample(networks, values, resamples(len(networks), count), tuple(panels))


@dataclass(frozen=True)
class Measured:
    """The coefficients of a panel, signed, seed by seed.

    Attributes:
        panel: The scores.
        n: Finite scores of every seed `(seeds,)`.
        rho: Spearman `(seeds,)`; NaN for fewer than three networks or a constant side.
        tau: Kendall's tau-b `(seeds,)`.
        drawn_rho: rho of every resample `(seeds, resamples)`.
        drawn_tau: tau of every resample `(seeds, resamples)`.
    """

    panel: Panel
    n: NDArray[np.intp]
    rho: Vector
    tau: Vector
    drawn_rho: Matrix
    drawn_tau: Matrix

    def interval(self, name: str) -> tuple[float, float]:
        """Return the percentile interval over networks of the mean over seeds of `rho` or `tau`."""
        return interval(mean_over_seeds(getattr(self, f"drawn_{name}")))


def measure(panel: Panel, truth: Vector, weights: Matrix) -> Measured:
    """Correlate the scores of every seed with accuracies, and those of every resample.

    Args:
        panel: The scores `(n, seeds)`.
        truth: `(n,)`, finite.
        weights: `(resamples, n)`.

    Raises:
        ValueError: Shapes do not fit, or an accuracy is not finite.
    """
    known: dict[bytes, tuple[int, float, float, Vector, Vector]] = {}  # without chance, all seeds are one
    found = []
    for column in panel.scores.T:
        if column.tobytes() not in known:
            ((x, y, _),) = finite_columns(column[:, None], truth)
            drawn = replicate(column[:, None], truth, weights)
            known[column.tobytes()] = len(x), spearman(x, y), kendall(x, y), drawn.rho, drawn.tau
        found.append(known[column.tobytes()])
    n, rho, tau, drawn_rho, drawn_tau = map(np.asarray, zip(*found, strict=True))
    return Measured(panel, n, rho, tau, drawn_rho, drawn_tau)


def common_seeds(first: Panel, second: Panel) -> Iterator[tuple[Vector, Vector]]:
    """Yield the scores of two panels of one sample `(n,)` for every seed that both have."""
    for column, seed in enumerate(first.seeds):
        if seed in second.seeds:
            yield first.scores[:, column], second.scores[:, second.seeds.index(seed)]


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the results in the order of the items; NumPy works outside of Python's lock."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))
