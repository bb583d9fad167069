"""The configuration of a study, as people write it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from ...errors import ConfigError, in_words, kind_of, one_line
from .plain_yaml import read_yaml

T = TypeVar("T")

#: Version of what all scores have in common: the networks, how batches are drawn, the default initialisation, and train
#: mode. Scores of different protocols are never compared.
PROTOCOL = "2"

#: Version of the format of configuration files.
CONFIG_VERSION = 1

#: Folders of configurations for `zcbench evolve` and `zcbench search`; all others are for `zcbench run`.
SEARCHES = ("evolution/", "search/")

#: What `proxies` says for all proxies and aggregates.
ALL = "all"

#: Settings of earlier versions, and what stands in their place.
FORMER = {"trainer": "workers, and device for a GPU", "devices": "workers"}


@dataclass(frozen=True)
class StudyConfig:
    """One study: networks of a space, scored by proxies on one data set.

    Args:
        version: Version of the format of the configuration file.
        name: Name of the board, with a version that goes up with every change; default is space and data set.
        space: Benchmark space, see `zcbench list spaces`.
        dataset: Data set of the probe images, see `zcbench list datasets`. With a data module, it names the task.
        datamodule: LightningDataModule that gives the images instead, as `MODULE:CLASS`. The data set still says which
            classes and which size of image the networks have, and which accuracies there are.
        datamodule_args: Arguments of the data module by name, such as `{root: images}`.
        accuracy: Trained accuracy to rank against; default is the first one of the space for the data set.
        proxies: Names of proxies, see `zcbench list proxies`; `all` for all proxies and aggregates.
        sample: Number of networks, drawn from the space by sample_seed; 0 for the whole space.
        sample_seed: Seed of the shuffle whose first networks are the sample.
        sample_of: Number of networks for single proxies, such as `{hnas: 200}` for one that takes long: the first of
            the sample. An aggregate ranks those that all its members score. With 0 for a proxy, `all` is without it and
            without the aggregates that read it. Names of proxies that the study lacks change nothing.
        representatives: Score one network of every class of equal networks, and give its scores to all of the class.
        batch_sizes: Numbers of images in the probe batch; empty for the batch size of the protocol of each proxy.
        seeds: Seeds of the images, the initialisation and the noise; each network is scored once per seed.
        precision: Precision of networks and images; float64 has almost no round-off and takes twice the time.
        resamples: Number of bootstrap resamples for the intervals.
        out: Results folder; scores that it holds already are not computed again.
        data: Data folder; default is ZCBENCH_DATA or the data directory of the user.
        include: Python files that register spaces, data sets or proxies of your own.
        tracker: Tracker of the run: wandb (offline unless you are logged in), trackio or none.
        workers: Number of worker processes; no number of them changes a score.
        engine: Where the workers are: local for this machine, ray for the Ray cluster that RAY_ADDRESS names or else
            for one of this run, ray://HOST:PORT for a cluster by its address.
        device: Device of the workers: cpu, cuda, or auto for cuda where there is a GPU. Workers take the GPUs in turn.
        machines: Machines whose scores do: this, for those with the instructions of this one, or any, for all CPUs or
            all GPUs. Between machines scores differ by round-off.
        gpus: Share of a GPU that a worker on a Ray cluster reserves; .25 lets four workers share one.
        limit_s: Seconds after which a network is given up, with the status timeout; 0 for no limit.
        memory_mib: Memory in MiB that one network may take on a CPU, or else has the status out_of_memory; 0 for no
            limit.
        tries: Number of runs that try a network which gives no score before it is left alone.
    """

    version: int = CONFIG_VERSION
    name: str = ""
    space: str = "nb201"
    dataset: str = "cifar10"
    datamodule: str = ""
    datamodule_args: dict[str, Any] = field(default_factory=dict)
    accuracy: str = "default"
    proxies: list[str] | str = ALL
    sample: int = 200
    sample_seed: int = 0
    sample_of: dict[str, int] = field(default_factory=dict)
    representatives: bool = False
    batch_sizes: list[int] | int = field(default_factory=list)
    seeds: list[int] | int = field(default_factory=lambda: [0])
    precision: Literal["float32", "float64"] = "float32"
    resamples: int = 1000
    out: str = "results"
    data: str | None = None
    include: list[str] | str = field(default_factory=list)
    tracker: Literal["wandb", "trackio", "none"] = "wandb"
    workers: int = 1
    engine: str = "local"
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    machines: Literal["this", "any"] = "this"
    gpus: float = 1.0
    limit_s: float = 3600.0
    memory_mib: int = 0
    tries: int = 3


def listed(values: list[T] | T) -> list[T]:
    """Return a list; a single value becomes a list of one, and a text is split at its commas."""
    if isinstance(values, str):
        return [part.strip() for part in values.split(",") if part.strip()]  # type: ignore[misc]
    return values if isinstance(values, list) else [values]


def is_all(proxies: list[str] | str) -> bool:
    """Return whether a list of proxies stands for all of them."""
    return listed(proxies) == [ALL]


def studies() -> dict[str, Path]:
    """Return the configuration files of the studies in the package, by name."""
    return {name: path for name, path in _configs().items() if not name.startswith(SEARCHES)}


def searches() -> dict[str, Path]:
    """Return the configuration files of the searches in the package, by name."""
    return {name: path for name, path in _configs().items() if name.startswith(SEARCHES)}


def _configs() -> dict[str, Path]:
    folder = Path(__file__).parents[2] / "configs"
    return {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.yaml"))}


def describe(path: Path) -> str:
    """Return the comment in the first line of a configuration file."""
    return path.read_text("utf-8").splitlines()[0].removeprefix("#").strip()


def read_configs(path: Path) -> list[str]:
    """Return a text for `--config` for every study of a file: its path, or JSON if the file lists several `studies`.

    Each of several studies has the settings at the top of the file; its own settings replace them.

    Raises:
        ConfigError: The file is absent, no YAML, or of another version, or `studies` is not a list of settings.
    """
    try:
        document: Any = read_yaml(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        wanted = "a YAML file"
        if isinstance(error, OSError):
            wanted += ", or a name from `zcbench list studies` or `zcbench list searches`"
        raise ConfigError(f"config: cannot read {path} ({in_words(error)}): expected {wanted}") from None
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise ConfigError(f"config: {path}: expected settings by name, `version: 1` first, got {kind_of(document)}")
    found = document.get("version")
    if type(found) is not int or found != CONFIG_VERSION:
        has = "no version" if found is None else f"version {found}"
        raise ConfigError(f"config: {path} has {has}, expected `version: {CONFIG_VERSION}` at its top")
    refuse_former(document)
    if "config" in document:
        raise ConfigError(f"config: {path} names another configuration: expected settings alone")
    if "studies" not in document:
        return [str(path)]
    own = document.pop("studies")
    if not isinstance(own, list) or not own or not all(isinstance(study, dict) for study in own):
        raise ConfigError(f"config: {path}: expected a list of settings under `studies`, got {one_line(str(own))[:80]}")
    for study in own:
        refuse_former(study)
    return [json.dumps(document | study, default=str) for study in own]


def refuse_former(names: Iterable[str]) -> None:
    """Refuse settings that had another name in earlier versions.

    Raises:
        ConfigError: A setting has another name now.
    """
    for name in names:
        former = name.partition(".")[0]
        if former in FORMER:
            raise ConfigError(f"{name}: expected {FORMER[former]}, its name in this version")


def distinct(name: str, values: Sequence[Any]) -> list[Any]:
    """Return the values of a setting as a list.

    Raises:
        ConfigError: A value occurs twice.
    """
    if len(set(values)) < len(values):
        twice = next(v for v in values if list(values).count(v) > 1)
        raise ConfigError(f"{name}: expected distinct values, got {twice} twice")
    return list(values)
