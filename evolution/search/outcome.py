"""What runs of search methods have found: numbers over repeats, with intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...bench.stats.bootstrap import interval, resamples
from .benchmark import Benchmark
from .play import Run

Vector = NDArray[np.float64]
#: Number of bootstrap resamples of the repeats.
RESAMPLES = 2000


@dataclass(frozen=True)
class Step:
    """A run after one of its trainings.

    Attributes:
        chosen: Place of the training with the highest validation accuracy so far, the first of equal ones.
        best_test: Highest test accuracy so far, which no method can know.
    """

    chosen: int
    best_test: float


def steps(run: Run) -> list[Step]:
    """Return a run after each of its trainings."""
    found: list[Step] = []
    chosen, best = 0, -math.inf
    for place, training in enumerate(run.trained):
        if training.validation > run.trained[chosen].validation:
            chosen = place
        best = max(best, training.test)
        found.append(Step(chosen, best))
    return found


@dataclass(frozen=True)
class Mean:
    """A mean over repeats and its 95 % percentile interval from a bootstrap over repeats."""

    value: float
    low: float
    high: float


def mean(values: Vector) -> Mean:
    """Return the mean `()` of values `(repeats,)`, with its interval; one repeat has no interval."""
    if len(values) < 2:
        return Mean(float(values.mean()) if len(values) else math.nan, math.nan, math.nan)
    drawn = resamples(len(values), RESAMPLES) @ values / len(values)
    return Mean(float(values.mean()), *interval(drawn))


@dataclass(frozen=True)
class Outcome:
    """What a method with one proxy has found at the end of its runs.

    Attributes:
        name: Method and proxy.
        trained: Mean number of trained networks.
        scored: Mean number of scored networks.
        seconds: Mean seconds of training; NaN if the table does not say them.
        validation: Mean validation accuracy of the network that was chosen by it.
        test: Test accuracy of that network.
        gain: Test accuracy less that of the first outcome, paired by repeat.
        better: Number of repeats in which it is higher than that of the first outcome, ties counting half.
        others: Accuracy of the chosen network on other data sets.
        tests: Test accuracies `(repeats,)`.
    """

    name: str
    trained: float
    scored: float
    seconds: float
    validation: float
    test: Mean
    gain: Mean
    better: float
    others: Mapping[str, Mean]
    tests: Vector


def outcomes(runs: Sequence[Run], benchmark: Benchmark) -> list[Outcome]:
    """Return the outcome of every method and proxy with trainings, in the order of the runs."""
    found: list[Outcome] = []
    for name, own in grouped(runs):
        ends = [run.trained[steps(run)[-1].chosen] for run in own if run.trained]
        if not ends:
            continue
        tests = np.array([end.test for end in ends])
        # A method that ends before it trains a network has fewer results, and no pairs.
        gains = tests - found[0].tests if found and len(found[0].tests) == len(tests) else np.full(len(tests), np.nan)
        places = [benchmark.space.index(end.network) for end in ends]
        found.append(
            Outcome(
                name,
                float(np.mean([len(run.trained) for run in own])),
                float(np.mean([len(run.scored) for run in own])),
                float(np.mean([run.trained[-1].seconds for run in own if run.trained])),
                float(np.mean([end.validation for end in ends])),
                mean(tests),
                mean(gains),
                float((np.sign(gains) / 2 + 0.5).sum()),
                {name: mean(truth.values[places]) for name, truth in benchmark.others.items()},
                tests,
            )
        )
    return found


@dataclass(frozen=True)
class Line:
    """The test accuracy of the chosen network against the number of trainings: arrays `(trainings,)`.

    Attributes:
        seconds: Mean seconds of training so far.
    """

    name: str
    trained: Vector
    seconds: Vector
    value: Vector
    low: Vector
    high: Vector


def lines(runs: Sequence[Run]) -> list[Line]:
    """Return the line of every method and proxy, as long as its shortest run."""
    found = []
    for name, own in grouped(runs):
        count = min(len(run.trained) for run in own)
        if not count:
            continue
        tests = np.array([[run.trained[step.chosen].test for step in steps(run)[:count]] for run in own])
        means = [mean(column) for column in tests.T]
        found.append(
            Line(
                name,
                np.arange(1, count + 1, dtype=np.float64),
                np.mean([[training.seconds for training in run.trained[:count]] for run in own], axis=0),
                *(np.array([getattr(each, part) for each in means]) for part in ("value", "low", "high")),
            )
        )
    return found


def grouped(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Return the runs by method and proxy, which follow each other, with a name for each."""
    groups = itertools.groupby(runs, key=lambda run: (run.method, run.proxy))
    return [(" ".join(filter(None, key)), list(own)) for key, own in groups]
