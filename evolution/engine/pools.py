"""The problem of a search for aggregates: programs over the known scores of proxies rank pools of networks."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...bench.results.ranking import with_aggregates
from ...bench.stats.bootstrap import interval
from ...bench.stats.bootstrap import resamples as draw
from ...bench.stats.coefficients import kendall
from ...bench.stats.correlation import correlate, correlate_seeds
from ...bench.stats.top import FEWEST
from ...bench.stats.top import top as most_accurate
from ...bench.study.recipe import Recipe
from ...errors import ConfigError, few
from ...proxies.aggregate import ranks
from ..language.primitives import TRANSFORM, Kind, Primitive
from ..language.programs import Program, Vocabulary
from .fitness import NOTHING, Objective, Vector, coefficient

#: Constants that programs may read, in addition to proxies.
CONSTANTS = ("0.25", "0.5", "2", "4")

_DECIMAL = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII)

#: Value of a proxy that a program reads: its relative rank in the pool, or the logarithm of its score.
Scale = Literal["ranks", "logs"]


#: Operations of aggregates, by name.
PRIMITIVES = {
    name: Primitive(name, function, function.nin, TRANSFORM, commutative=name in {"add", "mul", "min", "max"})
    for name, function in {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "min": np.minimum,
        "max": np.maximum,
        "square": np.square,
    }.items()
}


def vocabulary(proxies: Sequence[str], height_limit: int = 10, constants: Sequence[str] = CONSTANTS) -> Vocabulary:
    """Return a vocabulary of proxies and constants as terminals, and of the operations above."""
    terminals: dict[str, Kind] = dict.fromkeys([*proxies, *constants], "tensor")
    return Vocabulary(terminals, PRIMITIVES, height_limit)


def is_constant(name: str) -> bool:
    """Tell whether the name of a terminal is a finite decimal number.

    >>> is_constant("0.25"), is_constant("-1e-3"), is_constant("meco"), is_constant("1e999")
    (True, True, False, False)
    """
    return bool(_DECIMAL.fullmatch(name)) and math.isfinite(float(name))


@dataclass(frozen=True)
class Table:
    """The scores and accuracies of one pool of networks.

    Attributes:
        name: Name of the board, and of the part of its networks.
        scores: Scores of every proxy, `(n, seeds)`, without NaN; higher is better.
        truth: Accuracies of the n networks, finite.
        networks: Architectures of the n networks.
        classes: Class of each network; empty if the space knows of no classes.
    """

    name: str
    scores: Mapping[str, NDArray[np.float64]]
    truth: Vector
    networks: Sequence[str] = ()
    classes: Sequence[int] = ()

    def part(self, name: str, chosen: NDArray[np.intp]) -> Table:
        """Return a table of some of the networks."""
        scores = {proxy: values[chosen] for proxy, values in self.scores.items()}
        networks, classes = ([own[place] for place in chosen] if own else [] for own in (self.networks, self.classes))
        return Table(f"{self.name}, {name}", scores, self.truth[chosen], networks, classes)

    @property
    def keys(self) -> Sequence[int] | Sequence[str]:
        """What two networks that are one function share: their class, or their text if the space has no classes."""
        return self.classes or self.networks

    def halves(self, seed: int) -> tuple[Table, Table]:
        """Return two random halves of the classes of networks: one to fit on, and one to test on."""
        of, n = np.unique(self.classes or np.arange(len(self.truth)), return_inverse=True)
        # The stream of RandomState is frozen; that of newer generators may change with numpy.
        order = np.random.RandomState(seed).permutation(len(of))
        first = np.isin(n, order[: len(of) // 2])
        return self.part("fitted on", np.flatnonzero(first)), self.part("tested on", np.flatnonzero(~first))

    def values(self, scale: Scale) -> dict[str, Vector]:
        """Return the values of every proxy `(n,)` on a scale, as means over seeds."""
        return {proxy: scaled(columns, scale) for proxy, columns in self.scores.items()}


def scaled(columns: NDArray[np.float64], scale: Scale) -> Vector:
    r"""Return the relative ranks or logarithms of scores `(n, seeds)`, as means over seeds `(n,)`.

    A relative rank is $r_k / n$, and 1 for the best network; ties share a rank. If a score is not positive, all scores
    are used without a logarithm.
    """
    if scale == "ranks":
        return np.asarray(np.column_stack([ranks(column) for column in columns.T]).mean(1) / len(columns))
    return np.asarray((np.log(columns) if (columns > 0).all() else columns).mean(1))


def table(name: str, recipe: Recipe, rows: pd.DataFrame, proxies: Sequence[str]) -> Table:
    """Return a table of the networks of a recipe that have scores of all `proxies`, from the rows of a board.

    Raises:
        ConfigError: The board lacks a proxy, or fewer than ten networks have all scores.
        IncompleteError: A score of the board is missing.
    """
    chosen = with_aggregates(rows, recipe, name)
    absent = [proxy for proxy in proxies if proxy not in set(chosen["proxy"])]
    if absent:
        raise ConfigError(f"proxies: {name} has no scores of {few(absent, 3)}: expected proxies of its run")
    scores = {}
    known = {}
    keep = np.isfinite(recipe.values)
    for proxy in proxies:
        own = chosen[chosen["proxy"] == proxy]
        own = own[own["batch_size"] == own["batch_size"].max()]
        wide = own.pivot(index="architecture", columns="seed", values="value")
        columns = wide.reindex(recipe.architectures).to_numpy()
        scores[proxy] = -columns if proxy in recipe.lower else columns
        finite = ~np.isnan(columns).any(1)
        known[proxy] = int(finite.sum())
        keep &= finite
    if keep.sum() < 10:
        worst = min(known, key=lambda proxy: known[proxy])
        raise ConfigError(
            f"grounds: {name}: only {keep.sum()} of {len(keep)} networks have all scores ({worst} has {known[worst]}): "
            "expected 10 or more"
        )
    networks = [network for network, kept in zip(recipe.architectures, keep, strict=True) if kept]
    classes = [own for own, kept in zip(recipe.classes, keep, strict=bool(recipe.classes)) if kept]
    found = {proxy: values[keep] for proxy, values in scores.items()}
    return Table(name, found, recipe.values[keep], networks, classes)


class PoolProblem:
    """The problem of ranking pools by the scores of aggregates; a fitness is the least coefficient over the pools.

    Args:
        tables: Tables of the pools.
        scale: Scale on which programs read the scores of proxies.
        objectives: Objectives, see `fitness.coefficient`.
        share: Share of the networks that count as the most accurate, for the objective `top`.
        members: Largest number of proxies that a valid program reads; 0 for any.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        scale: Scale,
        objectives: Sequence[Objective] = ("tau",),
        share: float = 0.1,
        members: int = 0,
    ) -> None:
        self.tables, self.coefficients, self.share, self.members = tables, tuple(objectives), share, members
        self.objectives = len(self.coefficients)
        self.values = [t.values(scale) for t in tables]
        self.memo: list[dict[Program, Vector]] = [{} for _ in tables]

    def valid(self, programs: Sequence[Program]) -> list[bool]:
        """Return, for every program, whether its scores are finite and not all equal."""

        def varies(scores: Vector) -> bool:
            return bool(np.isfinite(scores).all()) and scores.min() < scores.max()

        return [self._few(program) and all(map(varies, self.scores(program))) for program in programs]

    def _few(self, program: Program) -> bool:
        read = {node.name for node in program.nodes() if not node.args and not is_constant(node.name)}
        return not self.members or len(read) <= self.members

    def behaviour(self, program: Program) -> bytes:
        """Return the ranks of the networks of every pool, as bytes; programs that rank alike count as one."""
        return b"".join(ranks(scores).tobytes() for scores in self.scores(program))

    def draw(self, rng: random.Random) -> None:
        """Draw nothing, because programs are measured on all networks."""

    def fitness(self, programs: Sequence[Program], drawn: object = None) -> list[tuple[float, ...]]:
        """Return the least coefficient over the pools for every program and objective, `NOTHING` if there is none."""
        return [tuple(self._least(program, objective) for objective in self.coefficients) for program in programs]

    def _least(self, program: Program, objective: Objective) -> float:
        pairs = zip(self.scores(program), self.tables, strict=True)
        found = [coefficient(scores, table.truth, objective, self.share) for scores, table in pairs]
        return NOTHING if np.isnan(found).any() else min(found)

    def scores(self, program: Program) -> list[Vector]:
        """Return the scores of a program on every pool."""
        for memo in self.memo:
            if len(memo) > 4096:  # mostly programs of one generation share subtrees
                memo.clear()
        return [run(program, values, memo) for values, memo in zip(self.values, self.memo, strict=True)]


def run(program: Program, values: Mapping[str, Vector], memo: dict[Program, Vector] | None = None) -> Vector:
    """Return the value of a program `(n,)` from the values of its terminals; `memo` keeps those of subtrees."""
    memo = {} if memo is None else memo
    if program not in memo:
        if program.args:
            with np.errstate(all="ignore"):
                memo[program] = PRIMITIVES[program.name].function(*(run(a, values, memo) for a in program.args))
        elif is_constant(program.name):
            memo[program] = np.full(len(next(iter(values.values()))), float(program.name))
        else:
            memo[program] = values[program.name]
    return memo[program]


@dataclass(frozen=True)
class PoolScore:
    """Score a pool with a program, found by genetic programming, over relative ranks or logarithms of scores."""

    program: Program
    scale: Scale

    def __call__(self, scores: Mapping[str, Vector]) -> Vector:
        """Return the scores of the networks of the pool."""
        values = {name: scaled(column[:, None], self.scale) for name, column in scores.items()}
        return run(self.program, values)


@dataclass(frozen=True)
class Outcome:
    """How an aggregate or a proxy ranks one pool, with 95 % percentile intervals over classes of networks.

    Attributes:
        what: Program of the aggregate, or name of the proxy.
        chosen: How the aggregate or proxy was found.
        n: Number of networks.
        tau: Kendall's tau-b, signed. The ends of every interval are called `_low` and `_high`.
        rho: Spearman's rho, signed.
        tau_top: Kendall's tau-b among the most accurate tenth of the networks.
        gain: Tau minus the tau of the best single proxy of the fitted pools, both of the same resamples.
        gain_top: `tau_top` minus that of a single proxy. If programs were fitted for `top`, it is the proxy that is
            best by `top` on the fitted pools; otherwise it is the proxy of `gain`.
    """

    what: str
    chosen: str
    pool: str
    n: int
    tau: float
    tau_low: float
    tau_high: float
    rho: float
    tau_top: float
    tau_top_low: float
    tau_top_high: float
    gain: float
    gain_low: float
    gain_high: float
    gain_top: float
    gain_top_low: float
    gain_top_high: float


def outcome(
    what: str, chosen: str, pool: Table, scores: Vector, single: Vector, single_top: Vector, resamples: int = 1000
) -> Outcome:
    """Correlate scores with the accuracies of a pool, and compare with two proxies, overall and at the top."""
    best = most_accurate(pool.truth)
    of = pool.classes
    weights = draw(len(scores), resamples, classes=of or None)
    weights_top = draw(len(best), resamples, classes=[of[n] for n in best] if of else None)
    own, other = (correlate_seeds(x[:, None], pool.truth, weights) for x in (scores, single))
    whole = correlate(scores[:, None], pool.truth, weights, seeds=own)
    drawn, beside = own.drawn_tau[0], other.drawn_tau[0]
    top, top_beside = (
        correlate_seeds(x[best][:, None], pool.truth[best], weights_top).drawn_tau[0]
        if len(best) >= FEWEST
        else np.full(resamples, np.nan)
        for x in (scores, single_top)
    )
    return Outcome(
        what,
        chosen,
        pool.name,
        len(scores),
        whole.tau,
        whole.tau_low,
        whole.tau_high,
        whole.rho,
        whole.tau_top_accuracy,
        *interval(top),
        whole.tau - kendall(single, pool.truth),
        *interval(drawn - beside),
        whole.tau_top_accuracy - kendall(single_top[best], pool.truth[best]),
        *interval(top - top_beside),
    )


def outcomes(
    programs: Mapping[str, Program],
    fitted: Sequence[Table],
    others: Sequence[Table],
    scale: Scale,
    objectives: Sequence[Objective] = ("tau",),
    share: float = 0.1,
) -> list[Outcome]:
    """Return how programs and the best single proxies rank the pools that were fitted on and all others.

    There are two kinds of best single proxies. One is chosen on the fitted pools, as programs are, by tau and by the
    other objectives. The other is the best by tau on the very pool that it ranks, which cannot be known in advance.

    Args:
        programs: Programs, by how they were found.
        fitted: Tables of the pools that programs were fitted on.
        others: Tables of all other pools.
        scale: Scale on which programs read the scores of proxies.
        objectives: Objectives that programs were fitted for.
        share: Share of the networks that count as the most accurate, for the objective `top`.
    """
    favourites: dict[str, str] = {}
    for objective in dict.fromkeys(("tau", *objectives)):
        problem = PoolProblem(fitted, scale, (objective,), share)
        singles = {name: problem.fitness([Program(name)])[0][0] for name in fitted[0].scores}
        favourites[objective] = max(singles, key=lambda name: singles[name])
    found = []
    for pool in (*fitted, *others):
        values = PoolProblem([pool], scale).values[0]
        taus = {name: coefficient(values[name], pool.truth) for name in pool.scores}
        best = max(taus, key=lambda name: np.nan_to_num(taus[name], nan=-2))
        rows = [(str(program), chosen, run(program, values)) for chosen, program in programs.items()]
        for wanted, name in favourites.items():
            by = "" if wanted == "tau" else f" by {wanted}"
            rows.append((name, f"best single proxy of the pools fitted on{by}", values[name]))
        rows.append((best, "best single proxy of this pool", values[best]))
        single, single_top = values[favourites["tau"]], values[favourites.get("top", favourites["tau"])]
        found += [outcome(what, chosen, pool, scores, single, single_top) for what, chosen, scores in rows]
    return found
