"""What seed and batch size do to a proxy: how far its correlation varies, whether it grows, how alike it ranks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from ..stats.coefficients import Vector, interval, mean_over_seeds
from .board import Board
from .pairs import Agreed, Comparison, between_batch_sizes, between_seeds, compare
from .panel import Measured, Sample


@dataclass(frozen=True)
class Seed:
    """One proxy at one batch size with one seed.

    Attributes:
        proxy: Its name.
        version: Of the proxy.
        batch_size: Images in the probe batch.
        seed: Of images, initialisation and noise, and of the sample where it draws the networks too.
        n: Networks with a finite score.
        rho: Spearman, signed, with the 95 % percentile interval over networks, `rho_low` and `rho_high`.
        tau: Kendall's tau-b, with `tau_low` and `tau_high`.
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

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        return dict(vars(self))


@dataclass(frozen=True)
class Spread:
    """One proxy at one batch size over all seeds.

    Attributes:
        proxy: Its name.
        version: Of the proxy.
        batch_size: Images in the probe batch; 0 for what needs none.
        seeds: How many have a coefficient.
        networks: How many have a finite score of any seed.
        coverage: Share of the scores asked for that are finite.
        rho: Spearman, signed: the mean over seeds. `rho_low` and `rho_high` are its 95 % percentile interval over
            networks, all seeds of one being one cluster: other networks, the same seeds.
        rho_sd: Standard deviation over seeds, on these networks. `rho_sd_low` and `rho_sd_high` are its 95 % interval
            if seeds are independent and normal, from the chi-square distribution with one less than the seeds: other
            seeds, the same networks. A bootstrap of seven values would be too short.
        rho_min: The lowest over seeds.
        rho_max: The highest.
        tau: Kendall's tau-b, with the same.
        seed_rho: Mean Spearman between the scores of two seeds; NaN where seeds share fewer than three networks.
        seed_tau: Kendall's tau-b of the same.
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

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        return dict(vars(self))


@dataclass(frozen=True)
class Trend:
    """By how much a coefficient grows with every doubling of the batch, in the direction that the proxy claims.

    The slope of a line through coefficient over log2 of the batch size, by least squares, all sizes alike.

    Attributes:
        proxy: Its name.
        version: Of the proxy.
        batch_sizes: Those that have a coefficient with every seed.
        seed: One seed, or None for the mean over all.
        rho: Slope of Spearman's rho; `rho_low` and `rho_high` are its 95 % percentile interval over networks.
        rho_seed_low: Of the 95 % t interval over seeds; NaN for one seed. `rho_seed_high` is its other end.
        rho_rising: How many seeds have a slope above 0.
        tau: Slope of Kendall's tau-b, with the same.
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
        boards: What it is made from: one board, or several whose seeds drew networks of their own.
        sample: Networks and scores of all of them.
        measured: Coefficients, panel by panel.
        seeds: One row per proxy, batch size and seed.
        spreads: One row per proxy and batch size.
        trends: Of every proxy with several batch sizes: one row per seed, and one for their mean.
        differences: Of every proxy, between its batch sizes; Holm's correction is over the pairs of one proxy.
        agreements: Of the scores between seeds and between batch sizes.
    """

    boards: tuple[Board, ...]
    sample: Sample
    measured: tuple[Measured, ...]
    seeds: tuple[Seed, ...]
    spreads: tuple[Spread, ...]
    trends: tuple[Trend, ...]
    differences: tuple[Comparison, ...]
    agreements: tuple[Agreed, ...]

    @property
    def id(self) -> str:
        """Of its board, or eight digits of all of them."""
        ids = [board.id for board in self.boards]
        return ids[0] if len(ids) == 1 else hashlib.sha256(" ".join(ids).encode()).hexdigest()[:8]

    @property
    def title(self) -> str:
        """Of its boards."""
        return " + ".join(dict.fromkeys(board.title for board in self.boards))

    @property
    def name(self) -> str:
        """What it is, in words."""
        if len(self.boards) == 1:
            return self.boards[0].name
        r = self.boards[0].recipe
        batches = f", batches of {' '.join(map(str, r.batch_sizes))}" if len(r.batch_sizes) > 1 else ""
        return (
            f"{r.space} on {r.dataset}, {len(self.boards)} samples of {len(r.accuracies)} networks{batches}, each with "
            f"a seed of its own, {r.truth}"
        )

    def identity(self) -> dict[str, str]:
        """Return what tables name it by."""
        return {"id": self.id, "title": self.title}


def ablate(boards: Sequence[Board], sample: Sample, measured: Sequence[Measured]) -> Ablation:
    """Work out all that an ablation says.

    Args:
        boards: What it is made from.
        sample: Their networks and scores.
        measured: Every panel of the sample, with the weights of the sample.
    """
    several = [own for own in _by_proxy(measured) if len(own) > 1]
    alike = [list(between_seeds(m.panel)) for m in measured]
    return Ablation(
        boards=tuple(boards),
        sample=sample,
        measured=tuple(measured),
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
    """Return the boards that are one experiment, in which the seed also draws the networks.

    They have one seed each, no two the same, differ in nothing else than networks, and have equally many.
    """
    groups: dict[tuple[Any, ...], list[Board]] = {}
    for board in boards:
        r = board.recipe
        if len(r.seeds) == 1:
            key = (r.space, r.dataset, r.truth, r.protocol, r.device, r.batch_sizes, len(r.accuracies))
            groups.setdefault(key, []).append(board)
    return [
        sorted(group, key=lambda board: board.recipe.seeds)
        for group in groups.values()
        if len({board.recipe.seeds[0] for board in group}) == len(group)
        and len({frozenset(board.recipe.accuracies) for board in group}) > 1
    ]


def per_seed(measured: Measured) -> Iterator[Seed]:
    """Yield what every seed of a panel says."""
    panel = measured.panel
    for row, seed in enumerate(panel.seeds):
        rho = float(measured.rho[row]), *interval(measured.drawn_rho[row])
        tau = float(measured.tau[row]), *interval(measured.drawn_tau[row])
        yield Seed(panel.proxy, panel.version, panel.batch_size, seed, int(measured.n[row]), *rho, *tau)


def spread(measured: Measured, agreements: Sequence[Agreed]) -> Spread:
    """Return how far the coefficients of a panel spread over seeds and over networks.

    Args:
        measured: The panel.
        agreements: Of its scores between seeds.
    """
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
    """Return the standard deviation `(k,)` of what is not NaN, with k - 1; NaN for fewer than two."""
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return math.nan
    return float(known.std(ddof=1)) if known.min() < known.max() else 0.0


def chi_square_interval(sd: float, k: int, level: float = 0.95) -> tuple[float, float]:
    r"""Return the interval of a standard deviation of k independent normal values; NaN for fewer than two.

    $$s \sqrt{\frac{k - 1}{\chi^2_{k-1, (1 \pm level)/2}}}$$
    """
    if k < 2 or math.isnan(sd):
        return math.nan, math.nan
    quantiles = scipy_stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], k - 1)
    low, high = sd * np.sqrt((k - 1) / quantiles)
    return float(low), float(high)


def trends(measured: Sequence[Measured]) -> Iterator[Trend]:
    """Yield the trend of every seed, and their mean, of one proxy at several batch sizes; nothing for fewer than two.

    A batch size without a coefficient with some seed is left out for all of them, and missing from `batch_sizes`.

    Args:
        measured: Panels of one proxy and the same seeds.
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
                own = float(of.mean()), *interval(drawn[name].mean(0)), *_t_interval(of), int((of > 0).sum())
            else:
                own = float(of[row]), *interval(drawn[name][row]), math.nan, math.nan, int(of[row] > 0)
            found[name] = own
        yield Trend(panel.proxy, panel.version, sizes, seed, *found["rho"], *found["tau"])


def _t_interval(values: Vector, level: float = 0.95) -> tuple[float, float]:
    if len(values) < 2:
        return math.nan, math.nan
    half = float(scipy_stats.t.ppf((1 + level) / 2, len(values) - 1)) * deviation(values) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half


def _by_proxy(measured: Sequence[Measured]) -> list[list[Measured]]:
    def of(m: Measured) -> tuple[str, int]:
        return m.panel.proxy, m.panel.version

    ordered = sorted(measured, key=lambda m: (*of(m), m.panel.batch_size))
    return [list(own) for _, own in groupby(ordered, key=of)]
