"""What a search is asked for; read by the command line, so nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..engine.config import EngineConfig

#: Of the format of configuration files.
CONFIG_VERSION = 1


@dataclass(frozen=True)
class Ground:
    """Networks that programs are evolved on.

    Attributes:
        space: A benchmark space.
        dataset: The images.
        accuracy: Which trained accuracy; default is the space's first for the data set.
    """

    space: str = "nb201"
    dataset: str = "cifar10"
    accuracy: str = "default"


@dataclass(frozen=True)
class EvolveConfig:
    """A search for programs.

    Attributes:
        version: Of this file's format.
        over: What terminals are: the `statistics` of a network, or relative `ranks` or `logs` of the scores of proxies,
            which makes aggregates.
        grounds: Spaces and images to evolve on.
        pool: Networks of every ground.
        draw: How many of them a generation is measured on; 0 for all.
        grounds_drawn: On how many grounds a generation is measured; 0 for all.
        exact: How many of the best programs of a generation are measured on all its grounds, in the order given; 0 for
            all. Others only until it is certain that they are not among them, and their fitness is an upper bound.
        sample_seed: Of the networks.
        batch_sizes: Images in the probe batch; each is a ground of its own.
        seeds: Of images, initialisation and noise; each is a ground of its own.
        collection: Which instances of a network programs see: ReLU-Conv-BatchNorm, Conv-BatchNorm-ReLU, both as the
            released code finds them, or ReLU-Conv-BatchNorm by data flow.
        dtype: What statistics are stored as.
        to_scalar: What makes a number of a program's result on an instance.
        aggregation: What makes a score of the numbers of all instances.
        representation: Expression trees, or register machines.
        objective: Kendall's tau, tau among the most accurate, or the weighted tau; for aggregates also both of the
            first two, with `engine.pareto`.
        top: Share of the networks that are the most accurate.
        sign: Whether the correlations of a program may have any sign, as in the paper, or must have the same
            everywhere.
        engine: Hyper-parameters.
        test: Networks of every ground, none of its pool, that the best programs are tested on.
        tests: Grounds to test on; by default those evolved on.
        test_batch_size: Images that programs and the proxies beside them are tested with; 0 for as many as programs
            were evolved with, since what ranks well on one image may not on sixteen.
        results: For aggregates: the folder with scores of proxies.
        proxies: For aggregates: the terminals; by default all proxies that every board of the results has.
        halves: For aggregates: fit on one half of the networks and test on the other, rather than fit on all.
        out: Where state, programs and records go; the same command goes on from there.
        statistics: Where statistics are stored; by default within `out`.
        data: The data folder.
        include: Python files of your own.
        devices: Worker processes.
        tracker: wandb or none.
    """

    version: int = CONFIG_VERSION
    over: Literal["statistics", "ranks", "logs"] = "statistics"
    grounds: list[Ground] = field(default_factory=lambda: [Ground()])
    pool: int = 80
    draw: int = 20
    grounds_drawn: int = 4
    exact: int = 0
    sample_seed: int = 0
    batch_sizes: list[int] = field(default_factory=lambda: [1])
    seeds: list[int] = field(default_factory=lambda: [0])
    collection: Literal["rcb", "cbr", "flow"] = "rcb"
    dtype: Literal["float32", "bfloat16"] = "float32"
    to_scalar: Literal["mean", "l2"] = "mean"
    aggregation: Literal["mean", "depth"] = "mean"
    representation: Literal["tree", "sequential"] = "tree"
    objective: Literal["tau", "top", "weighted", "both"] = "tau"
    top: float = 0.1
    sign: Literal["any", "same"] = "any"
    engine: EngineConfig = field(default_factory=EngineConfig)
    test: int = 400
    tests: list[Ground] = field(default_factory=list)
    test_batch_size: int = 0
    results: str = "results"
    proxies: list[str] = field(default_factory=list)
    halves: bool = True
    out: str = "evolution-results"
    statistics: str | None = None
    data: str | None = None
    include: list[str] | str = field(default_factory=list)
    devices: int = 1
    tracker: Literal["wandb", "none"] = "wandb"
