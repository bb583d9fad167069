"""What a study is: its configuration as people write it, and the plan that it resolves to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from ...errors import ConfigError, one_line

T = TypeVar("T")

#: Scores of different protocols are never compared; goes up when what every score has in common changes: the networks,
#: how batches are drawn, the default initialisation, train mode.
PROTOCOL = "2"

#: The version of configuration files.
CONFIG_VERSION = 1


@dataclass(frozen=True)
class TrainerConfig:
    """How the study runs; no value of it changes a score.

    Args:
        accelerator: Lightning's: cpu, gpu or auto.
        devices: Worker processes, each with one thread on a CPU, or one GPU each.
        num_nodes: Machines, for instance of a SLURM allocation.
        strategy: Lightning's; auto forks workers on a Linux CPU.
    """

    accelerator: str = "cpu"
    devices: int = 1
    num_nodes: int = 1
    strategy: str = "auto"


@dataclass(frozen=True)
class StudyConfig:
    """One study: networks of a space, scored by proxies on one data set.

    Args:
        version: Of this file's format.
        name: What its board is called, with a version that goes up with every change; by default space and data set.
        space: A benchmark space, see `zcbench list spaces`.
        dataset: The images, see `zcbench list datasets`.
        accuracy: Which trained accuracy scores are ranked against; default is the space's first for the data set.
        proxies: Names, see `zcbench list proxies`; empty for all.
        sample: How many networks, the first of a fixed shuffle; 0 for the whole space.
        sample_seed: Of that shuffle.
        batch_sizes: Images in the probe batch; empty for the one of each proxy's protocol.
        seeds: Each sets the images, the initialisation and the noise.
        precision: Of networks and images; float64 leaves no round-off to speak of, at twice the time.
        resamples: Of the bootstrap behind the intervals.
        out: The results folder. What it holds already is not computed again.
        data: The data folder; by default ZCBENCH_DATA or the user's data directory.
        include: Python files that register spaces, data sets or proxies of your own.
        tracker: wandb (offline unless logged in) or none.
        trainer: How the study runs.
    """

    version: int = CONFIG_VERSION
    name: str = ""
    space: str = "nb201"
    dataset: str = "cifar10"
    accuracy: str = "default"
    proxies: list[str] | str = field(default_factory=list)
    sample: int = 200
    sample_seed: int = 0
    batch_sizes: list[int] | int = field(default_factory=list)
    seeds: list[int] | int = field(default_factory=lambda: [0])
    precision: Literal["float32", "float64"] = "float32"
    resamples: int = 1000
    out: str = "results"
    data: str | None = None
    include: list[str] | str = field(default_factory=list)
    tracker: Literal["wandb", "none"] = "wandb"
    trainer: TrainerConfig = field(default_factory=TrainerConfig)


def listed(values: list[T] | T) -> list[T]:
    """Return a list; a value that stands alone is a list of one."""
    return values if isinstance(values, list) else [values]


def studies() -> dict[str, Path]:
    """Return the studies that come with the package, by name."""
    return {name: path for name, path in _configs().items() if not name.startswith("evolution/")}


def searches() -> dict[str, Path]:
    """Return the searches for programs that come with the package, by name."""
    return {name: path for name, path in _configs().items() if name.startswith("evolution/")}


def _configs() -> dict[str, Path]:
    folder = Path(__file__).parents[2] / "configs"
    return {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.yaml"))}


def describe(path: Path) -> str:
    """Return the comment that a configuration file begins with."""
    return path.read_text("utf-8").splitlines()[0].removeprefix("#").strip()


def read_configs(path: Path) -> list[str]:
    """Return what `--config` takes, once per study of a file: the file itself, or JSON if it lists several `studies`.

    Each of several has the settings at the top of the file and its own over them.

    Raises:
        ConfigError: The file is absent, no YAML, of another version of the format, or its list is none of studies.
    """
    try:
        document: Any = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(
            f"config: cannot read {path} ({first}): expected a YAML file, see `zcbench list studies`"
        ) from None
    found = document.get("version") if isinstance(document, dict) else None
    if type(found) is not int or found != CONFIG_VERSION:
        raise ConfigError(f"config: {path} has version {found}, expected `version: {CONFIG_VERSION}` at its top")
    if "studies" not in document:
        return [str(path)]
    own = document.pop("studies")
    if not isinstance(own, list) or not own or not all(isinstance(study, dict) for study in own):
        raise ConfigError(f"config: {path}: expected a list of settings under `studies`, got {one_line(str(own))[:80]}")
    return [json.dumps(document | study, default=str) for study in own]


def distinct(name: str, values: Sequence[Any]) -> list[Any]:
    """Return values as they came.

    Raises:
        ConfigError: One stands there twice.
    """
    if len(set(values)) < len(values):
        twice = next(v for v in values if list(values).count(v) > 1)
        raise ConfigError(f"{name}: expected distinct values, got {twice} twice")
    return list(values)
