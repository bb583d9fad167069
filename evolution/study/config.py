"""The configuration of a search, and its check; the command line reads it, so nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ...bench.study.config import listed
from ...errors import ConfigError
from ..engine.config import HEIGHT_LIMIT, RIVALS, EngineConfig, check_engine

#: Version of the format of configuration files.
CONFIG_VERSION = 1


@dataclass(frozen=True)
class Ground:
    """A ground: a space and a data set that a search evolves on.

    Attributes:
        space: Name of a benchmark space, see `zcbench list spaces`.
        dataset: Name of the data set of the images, see `zcbench list datasets`.
        accuracy: Name of the trained accuracy; `default` is the first that the space has for the data set.
        batch_size: Number of images in the probe batch on this ground; 0 for those of the search.
    """

    space: str = "nb201"
    dataset: str = "cifar10"
    accuracy: str = "default"
    batch_size: int = 0


@dataclass(frozen=True)
class EvolveConfig:
    """The configuration of a search for programs that score networks.

    Attributes:
        version: Version of the format of this configuration.
        over: Inputs of the programs: the `statistics` of a network as in the paper, its table of `layers`, or the
            relative `ranks` or the `logs` of the scores of proxies. With the last two, programs are aggregates.
        grounds: Spaces and data sets to evolve on.
        pool: Number of networks of every ground that programs are evolved on.
        split: Whether the pool and the test are drawn by `networks`, as in the paper, or by `classes` of networks that
            are one function. With classes, the best programs are chosen on `test` networks of the validation classes,
            and a third part of every space, which is sealed, is never read; `--open` reads it. Aggregates are fitted
            on all networks of a board that are not sealed, in place of a half.
        draw: Number of networks of a ground that are drawn to measure a generation; 0 for all.
        grounds_drawn: Number of grounds that are drawn to measure a generation; 0 for all.
        exact: Number of the best programs of a generation that are measured on all of its grounds; 0 for all programs.
            Grounds are measured in the given order, and every other program only until it is certain that it is not
            one of the best. Its fitness is then an upper bound.
        sample_seed: Seed of the choice of networks, and of the halves of a search for aggregates.
        batch_sizes: Numbers of images in the probe batch; programs are evolved on every ground with each of them,
            unless the ground has a `batch_size` of its own.
        seeds: Seeds of images, initialisation and noise; programs are evolved on every ground with each of them.
        collection: Rule that finds the instances of a network that programs read. `rcb` finds ReLU-Conv-BatchNorm and
            `cbr` Conv-BatchNorm-ReLU triples as the released code does; `flow` finds ReLU-Conv-BatchNorm triples by
            data flow.
        dtype: Type of the stored statistics; bfloat16 needs half the disk space and rounds.
        to_scalar: Reduction of a program's result on one instance to a number, the mean or the L2 norm.
        aggregation: Reduction of the numbers of all instances to a score, the mean or the mean weighted by depth.
        representation: Form of the programs while they are bred, expression trees or programs of a register machine.
        objective: Coefficient that measures programs. `tau` is Kendall's tau, `top` is tau among the most accurate
            networks, and `weighted` is the weighted tau. `gain` is tau minus the highest tau of the `rivals`, and
            `partial` is tau given the number of parameters; both need `over: layers`. `both` is tau and top, for
            aggregates with `engine.pareto`.
        rivals: Formulas over layer tables that `gain` compares with; by default those of params, macs, synflow and
            meco.
        top: Share of the networks that count as the most accurate.
        sign: Whether the coefficients of a program may have `any` sign, as in the paper, or must have the `same` sign
            on all grounds, or must be positive, so that a `higher` score is better.
        engine: Hyper-parameters of the evolution.
        test: Number of networks of every ground, outside its pool, that the best programs are tested on.
        tests: Spaces and data sets to test on; by default those of `grounds`.
        test_batch_size: Number of images in the probe batch of the test, on grounds without a `batch_size` of their
            own; 0 for the largest of `batch_sizes`. A program that ranks well with one image may not rank well with
            sixteen.
        results: Folder with the scores of proxies, for a search for aggregates: results, or a published leaderboard.
        proxies: Proxies that aggregates may use; by default all proxies that every board of `grounds` has.
        halves: Whether aggregates are fitted on one half of the classes of networks and tested on the other, instead of
            fitted on all networks.
        members: Largest number of proxies that an aggregate reads; 0 for any.
        out: Folder for the state, the programs and the records of the search; the same command continues from there.
        statistics: Folder of the network statistics; by default a folder within `out`.
        data: Data folder; by default ZCBENCH_DATA or the user's data directory.
        include: Python files that register your own spaces, data sets or proxies.
        workers: Number of worker processes.
        tracker: Tracker that mirrors the search: wandb (offline unless you are logged in) or none.
    """

    version: int = CONFIG_VERSION
    over: Literal["statistics", "layers", "ranks", "logs"] = "statistics"
    grounds: list[Ground] = field(default_factory=lambda: [Ground()])
    pool: int = 80
    split: Literal["networks", "classes"] = "networks"
    draw: int = 20
    grounds_drawn: int = 4
    exact: int = 0
    sample_seed: int = 0
    batch_sizes: list[int] | int = field(default_factory=lambda: [1])
    seeds: list[int] | int = field(default_factory=lambda: [0])
    collection: Literal["rcb", "cbr", "flow"] = "rcb"
    dtype: Literal["float32", "bfloat16"] = "float32"
    to_scalar: Literal["mean", "l2"] = "mean"
    aggregation: Literal["mean", "depth"] = "mean"
    representation: Literal["tree", "sequential"] = "tree"
    objective: Literal["tau", "top", "weighted", "gain", "partial", "both"] = "tau"
    rivals: list[str] = field(default_factory=lambda: [*RIVALS])
    top: float = 0.1
    sign: Literal["any", "same", "higher"] = "any"
    engine: EngineConfig = field(default_factory=EngineConfig)
    test: int = 400
    tests: list[Ground] = field(default_factory=list)
    test_batch_size: int = 0
    results: str = "results"
    proxies: list[str] | str = field(default_factory=list)
    halves: bool = True
    members: int = 0
    out: str = "evolution-results"
    statistics: str | None = None
    data: str | None = None
    include: list[str] | str = field(default_factory=list)
    workers: int = 1
    tracker: Literal["wandb", "none"] = "wandb"


def as_document(config: EvolveConfig) -> dict[str, Any]:
    """Return the configuration as plain values, without the numbers of images that grounds do not have.

    So a search that began before grounds could have one is the same search.
    """
    document = asdict(config)
    for ground in (*document["grounds"], *document["tests"]):
        if not ground["batch_size"]:
            del ground["batch_size"]
    return document


def check(config: EvolveConfig) -> None:
    """Check all values that can be checked without reading a file.

    Raises:
        ConfigError: A value is not possible.
    """
    if config.version != CONFIG_VERSION:
        raise ConfigError(f"version: expected {CONFIG_VERSION}, got {config.version}")
    check_engine(config.engine)
    if (limit := config.engine.height_limit) > HEIGHT_LIMIT:
        raise ConfigError(f"engine: expected a height_limit of at most {HEIGHT_LIMIT}, got {limit}")
    if not config.grounds:
        raise ConfigError("grounds: expected at least one space and data set")
    for ground in [*config.grounds, *config.tests]:
        if missing := [name for name, value in vars(ground).items() if value is None]:
            raise ConfigError(f"{missing[0]} of a ground: expected a value, got null")
        if ground.batch_size < 0 or (ground.batch_size and config.over in {"ranks", "logs"}):
            wanted = "0 or more" if config.over in {"statistics", "layers"} else f"0 with over={config.over}"
            raise ConfigError(f"batch_size of {ground.space}: expected {wanted}, got {ground.batch_size}")
    if not 0 <= config.sample_seed < 2**32:
        raise ConfigError(f"sample_seed: expected 0 to {2**32 - 1}, got {config.sample_seed}")
    if not 0 < config.top <= 1:
        raise ConfigError(f"top: expected a share above 0, at most 1, got {config.top}")
    if config.objective in {"gain", "partial"} and (config.over != "layers" or config.sign != "higher"):
        raise ConfigError(
            f"objective: expected over layers and sign higher with {config.objective}, got {config.over} and "
            f"{config.sign}: only layer tables hold the scores of the rivals"
        )
    if config.over in {"statistics", "layers"}:
        _check_programs(config)
    elif config.members < 0:
        raise ConfigError(f"members: expected 0 or more, got {config.members}")
    elif config.objective == "both" and not config.engine.pareto:
        raise ConfigError("objective: expected engine.pareto with both, because only it selects by two objectives")


def _check_programs(config: EvolveConfig) -> None:
    if config.pool < 3 or not (config.draw == 0 or 3 <= config.draw <= config.pool):
        raise ConfigError(
            f"pool: expected 3 or more networks, and a draw of 3 to that number, or 0 for all, got {config.pool} and "
            f"{config.draw}"
        )
    if not listed(config.seeds) or not listed(config.batch_sizes):
        raise ConfigError("seeds, batch_sizes: expected at least one of each")
    for name in ("test", "grounds_drawn", "exact"):
        if (value := getattr(config, name)) < 0:
            raise ConfigError(f"{name}: expected 0 or more, got {value}")
    if config.split == "classes" and config.test < 3:
        raise ConfigError(f"test: expected 3 or more networks of the validation classes, got {config.test}")
    if config.over == "layers" and config.representation != "tree":
        raise ConfigError("representation: expected tree with over layers, got sequential")
    if config.objective == "gain" and not config.rivals:
        raise ConfigError("rivals: expected at least one formula that a gain is over, got []")
    if config.over == "statistics" and config.engine.alike < 1:
        raise ConfigError(
            "engine: expected alike=1 with over=statistics, whose programs are not scored on all networks, got "
            f"{config.engine.alike:g}"
        )
    if config.workers < 1:
        raise ConfigError(f"workers: expected 1 or more, got {config.workers}")
    if config.engine.pareto and config.engine.parsimony:
        raise ConfigError("engine: expected either parsimony or pareto, because both make programs small")
    if config.objective == "both":
        raise ConfigError("objective: expected tau, top or weighted, got both, which is only for aggregates")
