"""What seeds and batch sizes do to a proxy: how much its coefficients vary, if they grow, and how alike it ranks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from scipy.special import gammaincinv, stdtrit

from ..stats.bootstrap import interval
from ..stats.coefficients import mean_over_seeds
from ..stats.ranks import Vector
from .board import Board
from .pairs import Agreed, Comparison, between_batch_sizes, between_seeds, compare
from .panel import Measured, Sample


@dataclass(frozen=True)
class Seed:
    """One proxy at one batch size with one seed.

    Attributes:
        seed: Seed of images, initialisation and noise, and of the sample if seeds draw the networks too.
        n: Number of networks with a finite score.
        rho: Spearman, signed, with the 95 % percentile interval over networks from `rho_low` to `rho_high`.
        tau: Kendall's tau-b, signed, with the interval from `tau_low` to `tau_high`.
    """

    proxy: str
    version: int
    batch_size: int
    seed: int
    n: int
    rho: float
    rho_low: float
    rho_high: float
    tau: float
    tau_low: float
    tau_high: float


@dataclass(frozen=True)
class Spread:
    """One proxy at one batch size over all seeds.

    Attributes:
        batch_size: Number of images in the probe batch; 0 for a proxy without a batch.
        seeds: Number of seeds that have a coefficient.
        networks: Number of networks with a finite score of any seed.
        coverage: Share of the scores asked for that are finite.
        rho: Spearman, signed, mean over seeds. The 95 % percentile interval from `rho_low` to `rho_high` is over
            networks with the same seeds; all seeds of a network are one cluster.
        rho_sd: Standard deviation over seeds, on these networks. The 95 % interval from `rho_sd_low` to `rho_sd_high`
            is over seeds with the same networks. It takes seeds as independent and normal, and comes from the
            chi-square distribution, because a bootstrap of seven values would be too short.
        tau: Kendall's tau-b, signed, mean over seeds; its other columns are as those of `rho`.
        seed_rho: Mean Spearman between the scores of two seeds; NaN where seeds share fewer than three networks.
        seed_tau: Mean Kendall's tau-b between the scores of two seeds; NaN as for `seed_rho`.
    """

    proxy: str
    version: int
    batch_size: int
    seeds: int
    networks: int
    coverage: float
    rho: float
    rho_low: float
    rho_high: float
    rho_sd: float
    rho_sd_low: float
    rho_sd_high: float
    rho_min: float
    rho_max: float
    tau: float
    tau_low: float
    tau_high: float
    tau_sd: float
    tau_sd_low: float
    tau_sd_high: float
    tau_min: float
    tau_max: float
    seed_rho: float
    seed_tau: float


@dataclass(frozen=True)
class Trend:
    """By how much a coefficient grows with every doubling of the batch, positive where the proxy ranks as it claims.

    It is the slope of a line through the coefficients over log2 of the batch size, by least squares.

    Attributes:
        batch_sizes: Batch sizes that have a coefficient with every seed.
        seed: Seed of the slope, None for the mean over all seeds.
        rho: Slope of Spearman's rho, with the 95 % percentile interval over networks from `rho_low` to `rho_high`.
        rho_seed_low: Lower end of the 95 % t interval over seeds; NaN for a single seed.
        rho_seed_high: Upper end of this interval.
        rho_rising: Number of seeds with a slope above 0.
        tau: Slope of Kendall's tau-b; its other columns are as those of `rho`.
    """

    proxy: str
    version: int
    batch_sizes: tuple[int, ...]
    seed: int | None
    rho: float
    rho_low: float
    rho_high: float
    rho_seed_low: float
    rho_seed_high: float
    rho_rising: int
    tau: float
    tau_low: float
    tau_high: float
    tau_seed_low: float
    tau_seed_high: float
    tau_rising: int

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        seed = "mean" if self.seed is None else self.seed
        return dict(vars(self)) | {"batch_sizes": " ".join(map(str, self.batch_sizes)), "seed": seed}


@dataclass(frozen=True)
class Ablation:
    """One experiment on seeds, batch sizes or both.

    Attributes:
        boards: Boards of the experiment: one, or several whose seeds drew networks of their own.
        sample: Networks and panels of all boards.
        seeds: One row per proxy, batch size and seed.
        spreads: One row per proxy and batch size.
        trends: One row per seed, and one for their mean, of every proxy with several batch sizes.
        differences: Differences between the batch sizes of a proxy; Holm's correction is over the pairs of one proxy.
        agreements: Agreements of the scores of two seeds, and of two batch sizes.
    """

    boards: tuple[Board, ...]
    sample: Sample
    seeds: tuple[Seed, ...]
    spreads: tuple[Spread, ...]
    trends: tuple[Trend, ...]
    differences: tuple[Comparison, ...]
    agreements: tuple[Agreed, ...]

    @property
    def id(self) -> str:
        """The id of the board, or eight digits that stand for several boards."""
        ids = [board.id for board in self.boards]
        return ids[0] if len(ids) == 1 else hashlib.sha256(" ".join(ids).encode()).hexdigest()[:8]

    @property
    def title(self) -> str:
        """The titles of the boards."""
        return " + ".join(dict.fromkeys(board.title for board in self.boards))

    @property
    def name(self) -> str:
        """Space, data set, networks and seeds in words."""
        if len(self.boards) == 1:
            return self.boards[0].name
        r = self.boards[0].recipe
        batches = f", batches of {' '.join(map(str, r.batch_sizes))}" if len(r.batch_sizes) > 1 else ""
        return (
            f"{r.space} on {r.dataset}, {len(self.boards)} samples of {len(r.accuracies)} networks{batches}, each with "
            f"a seed of its own, {r.truth}"
        )

    def identity(self) -> dict[str, str]:
        """Return the columns that identify it in tables."""
        return {"id": self.id, "title": self.title}


def ablate(boards: Sequence[Board], sample: Sample) -> Ablation:
    """Compute an ablation of boards, given the sample of all their networks and panels."""
    measured = sample.measured
    several = [own for own in _by_proxy(measured) if len(own) > 1]
    alike = [list(between_seeds(m.panel)) for m in measured]
    return Ablation(
        boards=tuple(boards),
        sample=sample,
        seeds=tuple(row for m in measured for row in per_seed(m)),
        spreads=tuple(map(spread, measured, alike)),
        trends=tuple(row for own in several for row in trends(own)),
        differences=tuple(row for own in several for row in compare(own, sample.truth, sample.weights)),
        agreements=(
            *(row for rows in alike for row in rows),
            *(row for own in several for row in between_batch_sizes([m.panel for m in own])),
        ),
    )


def drawn_by_seed(boards: Sequence[Board]) -> list[list[Board]]:
    """Return the groups of boards that are one experiment in which the seed also draws the networks.

    Each board of a group has a seed of its own. The boards have equally many networks, and differ in nothing else.
    """
    groups: dict[tuple[Any, ...], list[Board]] = {}
    for board in boards:
        r = board.recipe
        if len(r.seeds) == 1:
            key = (r.space, r.dataset, r.truth, r.protocol, r.device, r.torch, r.batch_sizes, len(r.accuracies))
            groups.setdefault(key, []).append(board)
    return [
        sorted(group, key=lambda board: board.recipe.seeds)
        for group in groups.values()
        if len({board.recipe.seeds[0] for board in group}) == len(group)
        and len({frozenset(board.recipe.accuracies) for board in group}) > 1
    ]


def per_seed(measured: Measured) -> Iterator[Seed]:
    """Yield the coefficients of every seed of a panel."""
    panel = measured.panel
    for row, seed in enumerate(panel.seeds):
        rho = float(measured.rho[row]), *interval(measured.drawn_rho[row])
        tau = float(measured.tau[row]), *interval(measured.drawn_tau[row])
        yield Seed(panel.proxy, panel.version, panel.batch_size, seed, int(measured.n[row]), *rho, *tau)


def spread(measured: Measured, agreements: Sequence[Agreed]) -> Spread:
    """Return how much the coefficients of a panel vary, given the agreements of the scores of every two seeds."""
    panel = measured.panel
    asked = int(panel.asked.sum())
    found = {}
    for name in ("rho", "tau"):
        values: Vector = getattr(measured, name)
        known = values[~np.isnan(values)]
        sd = deviation(values)
        found[name] = (
            float(mean_over_seeds(values)),
            *measured.interval(name),
            sd,
            *chi_square_interval(sd, len(known)),
            *((float(known.min()), float(known.max())) if len(known) else (math.nan, math.nan)),
        )
    alike = mean_over_seeds(np.asarray([(row.rho, row.tau) for row in agreements] or [(math.nan, math.nan)]))
    return Spread(
        panel.proxy,
        panel.version,
        panel.batch_size,
        int((~np.isnan(measured.rho)).sum()),
        int(panel.finite.any(1).sum()),
        float(panel.finite.sum() / asked) if asked else math.nan,
        *found["rho"],
        *found["tau"],
        *map(float, alike),
    )


def deviation(values: Vector) -> float:
    """Return the standard deviation of the values `(k,)` that are not NaN, with k - 1; NaN for fewer than two."""
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return math.nan
    return float(known.std(ddof=1)) if known.min() < known.max() else 0.0


def chi_square_interval(sd: float, k: int) -> tuple[float, float]:
    r"""Return the interval of a standard deviation of k independent normal values; NaN for fewer than two.

    $$s \sqrt{\frac{k - 1}{\chi^2_{k-1, (1 \pm 0.95)/2}}}$$
    """
    if k < 2 or math.isnan(sd):
        return math.nan, math.nan
    quantiles = 2 * gammaincinv((k - 1) / 2, [(1 + 0.95) / 2, (1 - 0.95) / 2])  # of chi-square
    low, high = sd * np.sqrt((k - 1) / quantiles)
    return float(low), float(high)


def trends(measured: Sequence[Measured]) -> Iterator[Trend]:
    """Yield the trend of every seed of one proxy, and their mean; nothing for fewer than two batch sizes.

    A batch size that lacks a coefficient of one seed is left out for all seeds, and is missing from `batch_sizes`.

    Args:
        measured: Panels of one proxy with the same seeds.
    """
    used = sorted(
        (m for m in measured if not np.isnan(m.rho + m.tau).any() and m.panel.batch_size > 0),
        key=lambda m: m.panel.batch_size,
    )
    if len(used) < 2:
        return
    panel = used[0].panel
    sizes = tuple(m.panel.batch_size for m in used)
    doublings = np.log2(sizes)
    centred = doublings - doublings.mean()
    line = panel.sign * centred / (centred @ centred)
    slopes = {name: line @ np.stack([getattr(m, name) for m in used]) for name in ("rho", "tau")}
    drawn = {name: np.tensordot(line, np.stack([getattr(m, f"drawn_{name}") for m in used]), 1) for name in slopes}
    for row, seed in enumerate((*panel.seeds, None)):
        found = {}
        for name, of in slopes.items():
            if seed is None:
                own = float(of.mean()), *interval(drawn[name].mean(0)), *t_interval(of), int((of > 0).sum())
            else:
                own = float(of[row]), *interval(drawn[name][row]), math.nan, math.nan, int(of[row] > 0)
            found[name] = own
        yield Trend(panel.proxy, panel.version, sizes, seed, *found["rho"], *found["tau"])


def t_interval(values: Vector) -> tuple[float, float]:
    """Return Student's 95 % interval of the mean of independent normal values `(k,)`; NaN for fewer than two."""
    if len(values) < 2:
        return math.nan, math.nan
    half = float(stdtrit(len(values) - 1, 0.975)) * deviation(values) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half


def _by_proxy(measured: Sequence[Measured]) -> list[list[Measured]]:
    def of(m: Measured) -> tuple[str, int]:
        return m.panel.proxy, m.panel.version

    ordered = sorted(measured, key=lambda m: (*of(m), m.panel.batch_size))
    return [list(own) for _, own in groupby(ordered, key=of)]
