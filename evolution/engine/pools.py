"""Aggregates that are evolved: programs over proxies, whose scores are known, so that one costs microseconds."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ...bench.results.ranking import select_rows
from ...bench.stats.bootstrap import interval
from ...bench.stats.bootstrap import resamples as draw
from ...bench.stats.coefficients import kendall
from ...bench.stats.correlation import correlate, correlate_seeds
from ...bench.stats.top import top as most_accurate
from ...bench.study.recipe import Recipe
from ...errors import ConfigError, ProgramError
from ...proxies.aggregate import Aggregate
from ..language.primitives import Kind, Primitive
from ..language.programs import Program, Vocabulary
from .fitness import NOTHING, Objective, Vector, coefficient

#: Terminals beside the proxies.
CONSTANTS = ("0.25", "0.5", "2", "4")

#: What a proxy is to a program: its relative rank in the pool, or the logarithm of its score.
Reading = Literal["ranks", "logs"]


def _same(*kinds: Kind) -> Kind:
    """There is one kind of value: a number for every network of the pool."""
    if set(kinds) != {"tensor"}:
        raise ProgramError(f"expected numbers of a pool, got {', '.join(kinds)}")
    return "tensor"


def _primitive(name: str, function: Callable[..., Any], arity: int = 2, *, commutative: bool = False) -> Primitive:
    return Primitive(name, function, arity, _same, commutative)


PRIMITIVES = {
    primitive.name: primitive
    for primitive in (
        _primitive("add", np.add, commutative=True),
        _primitive("sub", np.subtract),
        _primitive("mul", np.multiply, commutative=True),
        _primitive("div", np.divide),
        _primitive("min", np.minimum, commutative=True),
        _primitive("max", np.maximum, commutative=True),
        _primitive("square", np.square, 1),
    )
}


def vocabulary(proxies: Sequence[str], height_limit: int = 10) -> Vocabulary:
    """Return proxies and constants as terminals, sums, products and the like as primitives."""
    terminals: dict[str, Kind] = dict.fromkeys([*proxies, *CONSTANTS], "tensor")
    return Vocabulary(terminals, PRIMITIVES, height_limit)


@dataclass(frozen=True)
class Table:
    """Scores of one pool of networks, higher better.

    Attributes:
        name: Of the board, and of the part of it.
        scores: By proxy, `(n, seeds)`; no NaN.
        truth: Accuracies `(n,)`, finite.
        networks: What they are called.
    """

    name: str
    scores: Mapping[str, NDArray[np.float64]]
    truth: Vector
    networks: Sequence[str] = ()

    def part(self, name: str, chosen: NDArray[np.intp]) -> Table:
        """Return some of the networks, which rank among themselves."""
        scores = {proxy: values[chosen] for proxy, values in self.scores.items()}
        wanted = set(chosen.tolist())
        networks = [network for place, network in enumerate(self.networks) if place in wanted]
        return Table(f"{self.name}, {name}", scores, self.truth[chosen], networks)

    def halves(self, seed: int) -> tuple[Table, Table]:
        """Return two halves of the networks, drawn by seed: to fit on, and to test on."""
        # RandomState's stream is frozen for good; the newer generators may change with numpy.
        order = np.random.RandomState(seed).permutation(len(self.truth))
        middle = len(order) // 2
        return self.part("fitted on", np.sort(order[:middle])), self.part("tested on", np.sort(order[middle:]))

    def values(self, reading: Reading) -> dict[str, Vector]:
        """Return what every proxy is to a program `(n,)`, the mean over seeds."""
        return {proxy: read(columns, reading) for proxy, columns in self.scores.items()}


def read(columns: NDArray[np.float64], reading: Reading) -> Vector:
    r"""Return relative ranks $r_k / m$, 1 for the best of m, or logarithms, of scores `(n, seeds)`; means over seeds.

    Ties share a rank. Scores that are not all positive have no logarithm and are taken as they are.
    """
    if reading == "ranks":
        return np.asarray(rankdata(columns, axis=0).mean(1) / len(columns))
    return np.asarray((np.log(columns) if (columns > 0).all() else columns).mean(1))


def table(name: str, recipe: Recipe, rows: Any, proxies: Sequence[str]) -> Table:
    """Return the scores of a board as a table; networks without a score of any of the proxies are left out.

    Raises:
        ConfigError: A proxy is not on the board, or fewer than ten networks have all scores.
    """
    chosen = select_rows(rows, recipe)
    absent = [proxy for proxy in proxies if proxy not in set(chosen["proxy"])]
    if absent:
        raise ConfigError(f"proxies: {name} has no scores of {', '.join(absent)}: expected those of its run")
    scores = {}
    known = {}
    keep = np.isfinite(recipe.values)
    for proxy in proxies:
        own = chosen[chosen["proxy"] == proxy]
        sizes = sorted(set(own["batch_size"]))
        own = own[own["batch_size"] == sizes[-1]]
        columns = own.pivot(index="architecture", columns="seed", values="value").loc[recipe.architectures].to_numpy()
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
    return Table(name, {proxy: values[keep] for proxy, values in scores.items()}, recipe.values[keep], networks)


class PoolProblem:
    """Aggregates measured by how they rank pools of networks: the least coefficient over the pools.

    Args:
        tables: What programs are fitted on.
        reading: What a proxy is to a program.
        objectives: Coefficients: `tau`, `top` for tau among the most accurate, `weighted`.
        share: How many are the most accurate.
    """

    def __init__(
        self, tables: Sequence[Table], reading: Reading, objectives: Sequence[Objective] = ("tau",), share: float = 0.1
    ) -> None:
        self.tables, self.coefficients, self.share = tables, tuple(objectives), share
        self.objectives = len(self.coefficients)
        self.values = [{**t.values(reading), **{c: np.full(len(t.truth), float(c)) for c in CONSTANTS}} for t in tables]
        self.memo: list[dict[Program, Vector]] = [{} for _ in tables]

    def valid(self, programs: Sequence[Program]) -> list[bool]:
        """Return which programs give finite numbers, not all equal."""
        return [all(_varies(scores) for scores in self.scores(program)) for program in programs]

    def behaviour(self, program: Program) -> bytes:
        """Return how a program ranks the networks of every pool; a monotone function of another is no other program."""
        return b"".join(rankdata(scores).tobytes() for scores in self.scores(program))

    def draw(self, rng: random.Random) -> None:
        """Draw nothing: a program is measured on all networks."""

    def fitness(self, programs: Sequence[Program], drawn: object = None) -> list[tuple[float, ...]]:
        """Return the least coefficient over the pools, for every objective."""
        return [self._fitness(program) for program in programs]

    def _fitness(self, program: Program) -> tuple[float, ...]:
        scores = self.scores(program)
        found = []
        for objective in self.coefficients:
            own = [coefficient(s, t.truth, objective, self.share) for s, t in zip(scores, self.tables, strict=True)]
            found.append(NOTHING if np.isnan(own).any() else min(own))
        return tuple(found)

    def scores(self, program: Program) -> list[Vector]:
        """Return the scores of every pool."""
        for memo in self.memo:
            if len(memo) > 4096:  # what programs share is mostly of one generation
                memo.clear()
        return [run(program, values, memo) for values, memo in zip(self.values, self.memo, strict=True)]


def run(program: Program, values: Mapping[str, Vector], memo: dict[Program, Vector] | None = None) -> Vector:
    """Return what a program makes of the values of proxies, `(n,)`."""
    memo = {} if memo is None else memo
    if program not in memo:
        if program.args:
            with np.errstate(all="ignore"):
                memo[program] = PRIMITIVES[program.name].function(*(run(a, values, memo) for a in program.args))
        else:
            memo[program] = values[program.name]
    return memo[program]


def _varies(scores: Vector) -> bool:
    return bool(np.isfinite(scores).all()) and scores.min() < scores.max()


def as_aggregate(name: str, program: Program, reading: Reading, paper: str = "") -> Aggregate:
    """Return a program as an aggregate, to be used like any other."""
    members = tuple(dict.fromkeys(n.name for n in program.nodes() if not n.args and n.name not in CONSTANTS))
    return Aggregate(name=name, function=PoolScore(program, reading), members=members, paper=paper)


@dataclass(frozen=True)
class PoolScore:
    """Score a pool with a program that genetic programming found, over relative ranks or logarithms of its members."""

    program: Program
    reading: Reading

    def __call__(self, scores: Mapping[str, Vector]) -> Vector:
        """Score the pool."""
        size = len(next(iter(scores.values())))
        values = {name: read(column[:, None], self.reading) for name, column in scores.items()}
        return run(self.program, values | {c: np.full(size, float(c)) for c in CONSTANTS})


@dataclass(frozen=True)
class Outcome:
    """How scores rank one pool, with 95 % percentile intervals over networks.

    Attributes:
        what: The program, or the proxy.
        chosen: How it was found.
        pool: The networks.
        n: How many.
        tau: Kendall's tau-b, signed.
        tau_low: Of its interval.
        tau_high: Of the same.
        rho: Spearman.
        tau_top: tau-b among the most accurate tenth.
        tau_top_low: Of its interval, over these networks.
        tau_top_high: Of the same.
        gain: Tau less that of the best single proxy of the pools fitted on.
        gain_low: Of its interval, paired: both are of the same resamples.
        gain_high: Of the same.
        gain_top: The same among the most accurate tenth, against the proxy that is best there on the pools fitted on
            where programs were fitted for that, else the same proxy.
        gain_top_low: Of its interval.
        gain_top_high: Of the same.
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

    def flat(self) -> dict[str, Any]:
        """Return plain values, for CSV."""
        return dataclasses.asdict(self)


def outcome(
    what: str, chosen: str, pool: Table, scores: Vector, single: Vector, single_top: Vector, resamples: int = 1000
) -> Outcome:
    """Correlate scores with the accuracies of a pool, and compare with two proxies, overall and at the top."""
    best = most_accurate(pool.truth)
    weights, weights_top = (draw(n, resamples) for n in (len(scores), len(best)))
    own, other = (correlate_seeds(x[:, None], pool.truth, weights) for x in (scores, single))
    whole = correlate(scores[:, None], pool.truth, weights, seeds=own)
    drawn, beside = own.drawn_tau[0], other.drawn_tau[0]
    top, top_beside = (
        correlate_seeds(x[best][:, None], pool.truth[best], weights_top).drawn_tau[0] for x in (scores, single_top)
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
    reading: Reading,
    objectives: Sequence[Objective] = ("tau",),
    share: float = 0.1,
) -> list[Outcome]:
    """Report programs and the best single proxies on what was fitted and on all that was not.

    The best single proxy is that of the pools fitted on, chosen as a program is, by tau and by whatever else programs
    were fitted for; beside it stands, for every pool, the one whose tau happens to be best there, which nobody could
    have known.

    Args:
        programs: By how they were found.
        fitted: The pools that they were fitted on.
        others: Pools that they never saw.
        reading: What a proxy is to a program.
        objectives: What programs were fitted for.
        share: How many are the most accurate, for the objective `top`.
    """
    favourites: dict[str, str] = {}
    for objective in dict.fromkeys(("tau", *objectives)):
        problem = PoolProblem(fitted, reading, (objective,), share)
        singles = {name: problem._fitness(Program(name))[0] for name in fitted[0].scores}
        favourites[objective] = max(singles, key=lambda name: singles[name])
    found = []
    for pool in (*fitted, *others):
        values = PoolProblem([pool], reading).values[0]
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
