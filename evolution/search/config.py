"""The configuration of a search for networks; the command line reads it, so nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: Version of the format of configuration files.
CONFIG_VERSION = 1


@dataclass(frozen=True)
class SearchConfig:
    """The configuration of a search for the best network of a space.

    Attributes:
        version: Version of the format of this configuration.
        method: Names of search methods: random, best, aging, aging.warmup, aging.moves, keep, hnas, zen,
            zen.random, nsga2, nsga2.random.
        space: Name of a benchmark space, see `zcbench list spaces`.
        dataset: Name of the data set of the images, see `zcbench list datasets`; its task also names the accuracies.
        proxy: Names of the proxies or aggregates that guide the methods; a method that needs one runs once for each.
        validation: Name of the accuracy that a method sees of a network that it trains; `default` is the first
            validation accuracy of the space for the data set.
        test: Name of the accuracy that is reported; `default` is the first one of the space for the data set.
        transfer: Other data sets on which the test accuracy of the network that was found is reported too.
        budget: Number of trained networks that a run of a method may ask for.
        proxy_budget: Number of networks that a run of a method may score; 0 for no limit.
        seconds: Seconds of training that a run of a method may ask for, by the table of the space; 0 for no limit.
        repeats: Number of runs of each method, each with its own random draws; all methods have the same seeds.
        seed: Seed of every random draw of the methods.
        pool: Number of networks that best, aging.warmup, keep and hnas draw and score; 0 for the whole space.
        shortlist: Number of networks that pools are drawn from, the first of the fixed shuffle of the space; 0 for the
            whole space. Repeats with a short list share their scores, and their pools are more alike.
        population: Number of networks in the population; by default 10 of aging, 512 of zen, 100 of nsga2.
        tournament: Number of networks that are drawn from the population; the best of them becomes a parent.
        children: Number of mutants of a parent that aging.moves scores; it trains the one with the highest score.
        fraction: Share of a pool that keep keeps.
        top: Number of the best networks of a pool, by test accuracy, of which keep counts those that it keeps.
        iterations: Number of pairs of mu and nu that hnas tries.
        largest_nu: Largest nu that hnas tries; the released code has 5000, where the trace of a network of another
            width or another batch may be far below.
        evaluations: Number of networks that zen and nsga2 evaluate; in zen a mutant that breaks a limit counts too.
        proposals: Number of mutants that zen draws before it scores them; 1 as in its authors' code.
        start: Text of the network that zen starts from; by default that of the space.
        objective: Size that nsga2 minimises: params, macs, latency_ms, or layers of the space zen.
        max_params: Largest number of parameters of zen and nsga2; 0 for no limit, as of all limits.
        max_macs: Largest number of multiply-accumulates.
        max_layers: Largest number of layers; networks of the space zen have one.
        max_budget_params: Largest number of parameters as the authors of the space zen count them.
        max_budget_macs: Largest number of multiply-accumulates as the authors of the space zen count them.
        max_latency_ms: Largest latency in milliseconds, of one image on one thread of this CPU.
        latencies: JSON file with latencies by text; what it lacks is measured and added.
        representatives: Score one network of every class of equal networks, in place of any of that class.
        batch_size: Number of images in the probe batch; 0 for the batch size of the protocol of each proxy.
        score_seed: Seed of the images, the initialisation and the noise of the scores.
        results: Results folder; scores that it holds are not computed again, and new ones are written to it.
        out: Folder for the table, the rows and the figure of the search.
        data: Data folder; by default ZCBENCH_DATA or the user's data directory.
        include: Python files that register your own spaces, data sets or proxies.
        tracker: Tracker that mirrors the search: wandb (offline unless you are logged in) or none.
        workers: Number of worker processes; no number of them changes a result.
        engine: Where the workers are: local, ray or ray://HOST:PORT, see `zcbench run --help`.
        limit_s: Seconds after which the scoring of a network is given up; 0 for no limit.
        tries: Number of runs that try a network which gives no score before it is left alone.
    """

    version: int = CONFIG_VERSION
    method: list[str] | str = field(default_factory=lambda: ["random"])
    space: str = "nb201"
    dataset: str = "cifar10"
    proxy: list[str] | str = field(default_factory=list)
    validation: str = "default"
    test: str = "default"
    transfer: list[str] | str = field(default_factory=list)
    budget: int = 50
    proxy_budget: int = 0
    seconds: float = 0.0
    repeats: int = 20
    seed: int = 0
    pool: int = 200
    shortlist: int = 0
    population: int | None = None
    tournament: int = 3
    children: int = 10
    fraction: float = 0.1
    top: int = 10
    iterations: int = 20
    largest_nu: float = 5000.0
    evaluations: int = 5000
    proposals: int = 16
    start: str = ""
    objective: str = "macs"
    max_params: float = 0.0
    max_macs: float = 0.0
    max_layers: float = 0.0
    max_budget_params: float = 0.0
    max_budget_macs: float = 0.0
    max_latency_ms: float = 0.0
    latencies: str = ""
    representatives: bool = False
    batch_size: int = 0
    score_seed: int = 0
    results: str = "results"
    out: str = "search-results"
    data: str | None = None
    include: list[str] | str = field(default_factory=list)
    tracker: Literal["wandb", "none"] = "wandb"
    workers: int = 1
    engine: str = "local"
    limit_s: float = 3600.0
    tries: int = 3
