"""The base classes of benchmark spaces: networks with an index, a text, a builder, sizes and trained accuracies."""

from __future__ import annotations

import functools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..datasets.files.registry import data_folder
from ..datasets.tasks import Task
from ..errors import ArchitectureError, ConfigError, bad_architecture, unknown_name
from ..proxies.operations.isolation import Places
from ..proxies.operations.record import record
from ..registry import Registry
from .table import Table


@dataclass(frozen=True)
class Truth:
    """The trained accuracies of a whole space.

    Attributes:
        name: Task and accuracy (`cifar10/test-200`), which are part of the identity of every result.
        label: Description of the accuracy: set, epochs, seeds, and the file that holds it.
        values: Accuracies in the order of the index, float64, in percent unless the label says otherwise. Higher is
            better; NaN if the file has no accuracy of a network.
    """

    name: str
    label: str
    values: NDArray[np.float64]


class Sizes(NamedTuple):
    """The parameters of a network, and its multiply-accumulates for one image."""

    params: int
    macs: int


class Space(ABC):
    """A benchmark space. Architectures are texts. Their index is the official one, or the row in the user's file.

    Args:
        folder: Data folder; by default `ZCBENCH_DATA` or the user's data directory.
    """

    name: str
    paper: str
    #: The accuracies of each task (`cifar10`): names with one-line descriptions. The first one is the default. A space
    #: may have none; its networks can be scored, and searched, but not ranked.
    truths: Mapping[str, Mapping[str, str]]
    #: The name of the space whose networks are trained where these are scored; empty if it is this one.
    trained_in: str = ""
    #: Memory layout of the images that its networks are scored on.
    memory_format: torch.memory_format = torch.contiguous_format
    #: Whether the indices are every network that the space defines, and no list or sample of them. A study of all
    #: networks is a census then: its coefficients have no sampling error, and no interval.
    is_exhaustive: bool = False
    #: Names of the single trainings that an accuracy is the mean of, by task and accuracy. They say what a second
    #: training of the same networks would rank.
    trainings: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    #: Whether mutations lead to networks that have no index, because the space has no end.
    is_open: bool = False

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_folder(folder)

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of networks."""

    @abstractmethod
    def architecture(self, index: int) -> str:
        """Return the text of an index.

        Raises:
            ArchitectureError: The index is not one of 0 to size - 1.
        """

    @abstractmethod
    def index(self, architecture: str) -> int:
        """Return the index of a text.

        Raises:
            ArchitectureError: The text does not describe a network of this space.
        """

    @abstractmethod
    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build a network. As in the benchmark's code, torch's global random state draws its initial weights.

        Raises:
            ArchitectureError: The text does not describe a network.
        """

    @abstractmethod
    def read_truth(self, task: str, which: str) -> Truth:
        """Read the trained accuracies from the user's files.

        Raises:
            DataFileError: The file is absent or faulty.
        """

    def sizes_of(self, architecture: str, task: Task) -> Sizes:
        """Return the sizes of a network, counted on the built network. Spaces with a closed form override this.

        Multiply-accumulates are counted as by the proxy `macs`: a bias counts as one operation per output.
        """
        with torch.device("meta"):
            network = self.network(architecture, task)
        x = torch.empty(1, *task.shape, device="meta")
        operations = record(Places(network), x, training=False)
        macs = sum(call.products + call.additions for call in operations.running)
        return Sizes(sum(parameter.numel() for parameter in network.parameters()), macs)

    def limited_sizes(self, architecture: str, task: Task) -> Mapping[str, float]:
        """Return the sizes that a search may limit or minimise, by name. They are those of the network that is trained.

        All networks of a space have the same names of sizes.
        """
        return self.sizes_of(architecture, task)._asdict()

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters of a network."""
        return self.sizes_of(architecture, task).params

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates of a network for one image."""
        return self.sizes_of(architecture, task).macs

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return properties that networks are grouped by, such as the number of convolutions.

        All networks of a space have the same properties.
        """
        del architecture
        return {}

    def representative(self, index: int) -> int:
        """Return one index for all networks that are one function, but for the values of their weights.

        It is the index itself if the space knows of no such classes.
        """
        return index

    def training_seconds(self, task: str, which: str) -> NDArray[np.float64] | None:
        """Return the seconds of training behind an accuracy, in the order of the index; None if no file says them."""
        del task, which
        return None

    def draw(self, generator: random.Random) -> str:
        """Draw a network; all have the same probability."""
        return self.architecture(generator.randrange(self.size))

    @property
    def start(self) -> str:
        """The network that an evolution starts from if it starts from one."""
        return self.architecture(0)

    def mutate_two_places(self, architecture: str, generator: random.Random) -> str:
        """Draw a neighbour of a neighbour of a network, which differs from it at up to two places.

        Raises:
            ConfigError: The space has no mutations.
        """
        return self.mutate(self.mutate(architecture, generator), generator)

    def mutate(self, architecture: str, generator: random.Random) -> str:
        """Draw a neighbour of a network: a network of the space with one other operation, width or depth.

        Raises:
            ConfigError: The space has no mutations.
        """
        del architecture, generator
        raise ConfigError(f"space: {self.name} has no mutations of a network")

    def build(self, architecture: str, task: Task, seed: int) -> nn.Module:
        """Build a network whose initial weights are drawn from `seed`. The global random state does not change."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.network(architecture, task)

    def sample(self, count: int, seed: int = 0) -> list[int]:
        """Draw distinct indices. They are the first ones of a fixed shuffle, so a larger sample contains a smaller one.

        Raises:
            ConfigError: The count is not between 1 and the size of the space.
        """
        if not 1 <= count <= self.size:
            raise ConfigError(f"sample: expected 1 to {self.size} networks of {self.name}, got {count}")
        # The stream of RandomState never changes. Newer generators may change with a version of numpy.
        shuffled = np.random.RandomState(seed).permutation(self.size)
        return [int(index) for index in shuffled[:count]]

    def truth(self, task: str, which: str = "default") -> Truth:
        """Return the accuracies of a task; `default` is the first one in `truths`.

        Raises:
            ConfigError: The space has no accuracies for that task.
            UnknownNameError: The space has no accuracy of that name.
            DataFileError: The file is absent or faulty.
        """
        if task not in self.truths:
            only = f", only for {', '.join(self.truths)}" if self.truths else ": expected a space that has some"
            raise ConfigError(f"dataset: {self.name} has no accuracies for {task}{only}")
        known = self.truths[task]
        if which == "default":
            which = next(iter(known))
        if which not in known:
            raise unknown_name(f"accuracy of {self.name} on {task}", which, known)
        return self.read_truth(task, which)

    def check_index(self, index: int) -> int:
        """Return the given index if it is one of the space.

        Raises:
            ArchitectureError: The index is not one of 0 to size - 1.
        """
        if not 0 <= index < self.size:
            raise ArchitectureError(f"index: expected 0 to {self.size - 1}, got {index}")
        return index


class ListedSpace(Space):
    """A space of which the user has a list. An index is a row of the table, whose columns are the accuracies.

    A network that is not in the list can be built too, from its text.
    """

    @abstractmethod
    def read_table(self) -> Table:
        """Read the networks and their accuracies; the columns have names of the form `task/which`.

        Raises:
            DataFileError: The file is absent or faulty.
        """

    @abstractmethod
    def canonical(self, architecture: str) -> str:
        """Return the text in the spelling of the table.

        Raises:
            ArchitectureError: The text does not describe a network.
        """

    @functools.cached_property
    def table(self) -> Table:
        """The table, which is read at the first use."""
        return self.read_table()

    @functools.cached_property
    def _rows(self) -> dict[str, int]:
        return {architecture: row for row, architecture in enumerate(self.table.architectures)}

    @property
    def size(self) -> int:
        """The number of networks in the table."""
        return len(self.table.architectures)

    def architecture(self, index: int) -> str:
        """Return the text of a row."""
        return self.table.architectures[self.check_index(index)]

    def index(self, architecture: str) -> int:
        """Return the row of a text."""
        text = self.canonical(architecture)
        if text not in self._rows:
            raise bad_architecture(
                architecture, f"the network is valid, but none of the {self.size} in {self.table.path}"
            )
        return self._rows[text]

    def read_truth(self, task: str, which: str) -> Truth:
        """Return a column of the table."""
        name = f"{task}/{which}"
        return Truth(name, self.truths[task][which], self.table.columns[name])


#: All benchmark spaces by name: functions that make the space from the data folder.
SPACES: Registry[Callable[[Path | None], Space]] = Registry("space")
