"""Rankings: how well each proxy ranks, on how many networks, at what cost, and what size explains of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import IncompleteError
from ..scoring.parts import KEY
from ..scoring.store import Store
from ..stats.coefficients import over_seeds, pearson, tied, weighted_kendall
from ..stats.conditional import Conditional, Rest, among, given, representatives, within
from ..stats.correlation import Correlation, correlate
from ..stats.ranks import Matrix
from ..stats.top import FEWEST, Tops, choose, tops
from ..study.recipe import Recipe
from .aggregates import pooled
from .panel import Measured, Sample, by_panel, in_threads, of_recipe

#: Number of networks that a search would train.
CHOSEN = 10
#: Cut-offs of the curves, as shares of the networks.
CUTS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Ranking:
    """How well one proxy ranks, and all that makes the coefficients comparable.

    Attributes:
        dataset: Name of the images.
        accuracy: Name of the accuracies.
        protocol: Version of what all scores have in common.
        device: Device and precision, see `environment.device_text`.
        torch: Release of torch.
        batch_size: Number of images in the probe batch; 0 for a proxy without a batch.
        census: Whether the networks are all of the space; coefficients have no sampling error and no intervals then.
        networks: Number of networks that the proxy was asked to score.
        coverage: Share of (network, seed) pairs with a finite score; the others are in no coefficient.
        failures: Number of scores with each status other than ok.
        ms: Median milliseconds per network if the proxy runs alone: shared passes are counted in full.
        pool: Networks that an aggregate ranked; empty for a proxy that scores each network by itself.
        higher_is_better: Whether the highest scores are the top.
    """

    space: str
    dataset: str
    accuracy: str
    protocol: str
    device: str
    torch: str
    proxy: str
    version: int
    batch_size: int
    seeds: tuple[int, ...]
    networks: int
    census: bool
    coverage: float
    failures: dict[str, int]
    ms: float
    pool: str
    higher_is_better: bool
    correlation: Correlation

    @property
    def claimed_tau(self) -> float:
        """Kendall's tau-b, positive where the proxy ranks as it claims."""
        return self.correlation.tau if self.higher_is_better else -self.correlation.tau

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV and JSON."""
        record = asdict(self)
        record["seeds"] = " ".join(map(str, self.seeds))
        record["failures"] = " ".join(f"{status}:{count}" for status, count in self.failures.items())
        correlation: dict[str, Any] = record.pop("correlation")
        return record | correlation


def select(store: Store, recipe: Recipe) -> pd.DataFrame:
    """Return the rows of the store that belong to a recipe, and the rows of its aggregates, which are computed here.

    Raises:
        IncompleteError: A key of the recipe has neither a score nor an attempt.
        ResultsError: The store cannot be read.
    """
    return with_aggregates(store.rows(recipe), recipe, f"results {store.folder}")


def with_aggregates(rows: pd.DataFrame, recipe: Recipe, where: str) -> pd.DataFrame:
    """Return the rows of a recipe, and the rows of its aggregates.

    Args:
        rows: Rows of the recipe, one per key, from `Store.rows`.
        recipe: Recipe of the rows.
        where: Name of the results or of the board, for the error.

    Raises:
        IncompleteError: A key of the recipe has no row. Without this error, the network would look like a bad one.
    """
    expected = sum(recipe.networks_of(item.proxy) for item in set(recipe.items()))
    if len(rows) < expected:
        known = set(rows[list(KEY)].itertuples(index=False, name=None))
        wanted = (key for key in recipe.keys() if key not in known)  # noqa: SIM118
        first = dict(zip(KEY, next(wanted), strict=True))
        raise IncompleteError(
            f"{where}: {expected - len(rows):,} of {expected:,} scores are missing, first {first['proxy']} of "
            f"{first['architecture']} with seed {first['seed']}: zcbench run of the same study computes them"
        )
    return pd.concat([rows.assign(pool=""), *pooled(recipe, rows)], ignore_index=True)


def summarise(recipe: Recipe, rows: pd.DataFrame) -> list[Ranking]:
    """Correlate every proxy with the accuracies of the recipe; the best Kendall's tau comes first."""
    return rank(recipe, rows, of_recipe(recipe, rows))


def rank(recipe: Recipe, rows: pd.DataFrame, sample: Sample) -> list[Ranking]:
    """Return the rankings of a sample, the best Kendall's tau first.

    Args:
        recipe: Recipe of the scores.
        rows: Scores that the sample is made of.
        sample: Sample of these scores.
    """

    def of(m: Measured) -> Correlation:
        up = m.panel.higher_is_better
        return _said(correlate(m.panel.scores, sample.truth, sample.weights, higher_is_better=up, seeds=m))

    found = zip(sample.measured, in_threads(of, sample.measured), strict=True)
    measured = {(m.panel.proxy, m.panel.batch_size): (m.panel, correlation) for m, correlation in found}
    rankings = []
    for proxy, batch_size, group in by_panel(rows):
        panel, correlation = measured[proxy, batch_size]
        status = group["status"].value_counts()
        rankings.append(
            Ranking(
                space=recipe.space,
                dataset=recipe.dataset,
                accuracy=recipe.truth,
                protocol=recipe.protocol,
                device=recipe.device,
                torch=recipe.torch,
                proxy=proxy,
                version=panel.version,
                batch_size=batch_size,
                seeds=panel.seeds,
                networks=group["architecture"].nunique(),
                census=not recipe.resamples,
                coverage=float(np.isfinite(group["value"]).mean()),
                failures={str(name): int(count) for name, count in status.items() if name != "ok"},
                ms=float(1000 * group["wall_s"].median()),
                pool=", ".join(dict.fromkeys(group["pool"])),
                higher_is_better=panel.higher_is_better,
                correlation=correlation,
            )
        )
    return sorted(rankings, key=lambda r: (-np.nan_to_num(r.claimed_tau, nan=-2), r.proxy, r.batch_size))


def _said(correlation: Correlation) -> Correlation:
    """Return a correlation, without coefficients if it is of fewer than `FEWEST` networks."""
    if correlation.n >= FEWEST:
        return correlation
    nothing: dict[str, Any] = dict.fromkeys(vars(correlation), math.nan) | {"n": correlation.n}
    return Correlation(**nothing)


@dataclass(frozen=True)
class Detail:
    """The top of a ranking, and what size explains of it: one proxy at one batch size, means over seeds.

    Attributes:
        pearson: Pearson's r of scores and accuracies.
        weighted_tau: Weighted tau, in which pairs at the top weigh most (Vigna, WWW 2015).
        ties: Share of pairs of scores that are equal.
        precision_top_10_percent: Share of the 10 % with the highest scores that are among the 10 % most accurate.
        ndcg_top_10_percent: Normalised discounted cumulative gain of the 10 % with the highest scores.
        regret_at_10: Best accuracy of all networks less the best of the ten highest scores, in percentage points.
        best_percentile: Percentage of the other networks that score below the most accurate network.
        conditional: Both coefficients given params and given MACs, and where the space knows of them within equal
            numbers of convolutions, among one network of every class, and among networks without unreachable
            operations.
        curve: The top at every cut-off of `CUTS`.
    """

    pearson: float
    weighted_tau: float
    ties: float
    precision_top_10_percent: float
    ndcg_top_10_percent: float
    regret_at_10: float
    best_percentile: float
    conditional: Mapping[str, Conditional]
    curve: Tops

    def flat(self) -> dict[str, float | str]:
        """Return one level of plain values, for CSV; a change of sign is flagged where its interval excludes zero."""
        record: dict[str, float | str] = {k: v for k, v in vars(self).items() if k not in {"conditional", "curve"}}
        for name, found in self.conditional.items():
            record |= {f"rho_{name}": found.rho, f"rho_{name}_low": found.rho_low, f"rho_{name}_high": found.rho_high}
            record |= {f"tau_{name}": found.tau, f"sign_change_{name}": "yes" if found.rho_sign_change else ""}
        return record

    def points(self) -> list[dict[str, float]]:
        """Return the curve, one record per cut-off, for CSV."""
        names = [name for name in vars(self.curve) if name not in {"n", "shares"}]
        return [
            {"share": share, "n": self.curve.n} | {name: float(getattr(self.curve, name)[i]) for name in names}
            for i, share in enumerate(self.curve.shares.tolist())
        ]


def detail(
    measured: Measured,
    sample: Sample,
    sizes: Mapping[str, NDArray[np.float64]],
    overall: Correlation,
    rests: defaultdict[str, Rest],
) -> Detail:
    """Return the details of one panel.

    Args:
        measured: Panel with its coefficients.
        sample: Sample of the panel.
        sizes: `params`, `macs`, and what else the space knows of the networks of the sample, each `(n,)`.
        overall: Coefficients without a condition.
        rests: What size alone says of the accuracies, which all panels of a sample share.
    """
    truth, weights, up = sample.truth, sample.weights, measured.panel.higher_is_better
    scores = _distinct(measured.panel.scores)
    top = tops(scores, truth, CUTS, higher_is_better=up)
    choice = choose(scores, truth, max(1, min(CHOSEN, len(truth))), higher_is_better=up)
    found = over_seeds(
        lambda x, y: (pearson(x, y), weighted_kendall(x, y, higher_is_better=up), tied(x)), scores, truth
    )
    conditional = {
        f"given_{name}": given(scores, truth, sizes[name], weights, overall, seeds=measured, rest=rests[name])
        for name in ("params", "macs")
    }
    if "convolutions" in sizes:
        conditional["within_convolutions"] = within(scores, truth, sizes["convolutions"], weights, overall)
    if "isomorphism_class" in sizes:
        first = representatives(sizes["isomorphism_class"])
        conditional["among_classes"] = among(scores, truth, first, weights, overall)
    if "unreachable" in sizes:
        conditional["among_reachable"] = among(scores, truth, sizes["unreachable"] == 0, weights, overall)
    at = CUTS.index(0.1)
    return Detail(
        pearson=float(found[0]),
        weighted_tau=float(found[1]),
        ties=float(found[2]),
        precision_top_10_percent=float(top.precision[at]),
        ndcg_top_10_percent=float(top.ndcg[at]),
        regret_at_10=choice.regret,
        best_percentile=choice.percentile,
        conditional=conditional,
        curve=top,
    )


def _distinct(scores: Matrix) -> Matrix:
    """Return one column if all seeds have the same scores, as those of a proxy without chance."""
    return scores[:, :1] if np.array_equal(scores, np.tile(scores[:, :1], scores.shape[1]), equal_nan=True) else scores
