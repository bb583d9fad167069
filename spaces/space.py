"""What a benchmark space is: networks with an index, a text, a builder, sizes and trained accuracies."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..datasets.files.registry import data_folder
from ..datasets.tasks import Task
from ..errors import ArchitectureError, ConfigError, unknown_name
from ..registry import Registry
from .table import Table


@dataclass(frozen=True)
class Truth:
    """Trained accuracies of a whole space.

    Attributes:
        name: Task and accuracy (`cifar10/test-200`), part of the identity of every result.
        label: In words: set, epochs, seeds, and the file that holds it.
        values: By index, higher is better; float64, in percent unless the label says otherwise; NaN where the file has
            none.
    """

    name: str
    label: str
    values: NDArray[np.float64]


class Convolution(NamedTuple):
    """What a convolution and its batch norm cost: weights, channels of the norm, and the side of the output map."""

    weights: int
    channels: int
    side: int


class Space(ABC):
    """A benchmark space. Architectures are texts; their index is the official one, or the row of the user's file.

    Args:
        folder: The data folder; by default `ZCBENCH_DATA` or the user's data directory.
    """

    name: str
    paper: str
    #: Accuracies by task (`cifar10`), each a name and a one-line description; the first is the default.
    truths: Mapping[str, Mapping[str, str]]

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_folder(folder)

    @property
    @abstractmethod
    def size(self) -> int:
        """How many networks."""

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
            ArchitectureError: The text is no network of this space.
        """

    @abstractmethod
    def network(self, architecture: str, task: Task) -> nn.Module:
        """Build the network, initialised as the benchmark's code does from torch's global random state.

        Raises:
            ArchitectureError: The text does not describe a network.
        """

    @abstractmethod
    def read_truth(self, task: str, which: str) -> Truth:
        """Read the trained accuracies from the user's files.

        Raises:
            DataFileError: The file is absent or faulty.
        """

    def params(self, architecture: str, task: Task) -> int:
        """Return the number of parameters; spaces with a closed form override this count of a network without data."""
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in self.network(architecture, task).parameters())

    def macs(self, architecture: str, task: Task) -> int:
        """Return the multiply-accumulates of one image, and one operation per bias, as the proxy `macs` counts them."""
        total = 0

        def count(layer: nn.Module, _: Any, output: Tensor) -> None:
            nonlocal total
            weight, bias = layer.get_parameter("weight"), layer._parameters["bias"]
            total += output.numel() * (weight[0].numel() + (bias is not None))

        with torch.device("meta"), torch.no_grad():
            network = self.network(architecture, task).eval()
            for module in network.modules():
                if isinstance(module, nn.Conv2d | nn.Linear):
                    module.register_forward_hook(count)
            network(torch.empty(1, *task.shape))
        return total

    def traits(self, architecture: str) -> Mapping[str, float]:
        """Return what groups of networks are made by, such as the number of convolutions; the same names for all."""
        del architecture
        return {}

    def build(self, architecture: str, task: Task, seed: int) -> nn.Module:
        """Build the network in its initialisation drawn from `seed`; the global state is left alone."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.network(architecture, task)

    def sample(self, count: int, seed: int = 0) -> list[int]:
        """Draw distinct indices, the first ones of a fixed shuffle, so that smaller samples are part of larger ones.

        Raises:
            ConfigError: The count is not between 1 and the size of the space.
        """
        if not 1 <= count <= self.size:
            raise ConfigError(f"sample: expected 1 to {self.size} networks of {self.name}, got {count}")
        # RandomState's stream is frozen for good; the newer generators may change with numpy.
        shuffled = np.random.RandomState(seed).permutation(self.size)
        return [int(index) for index in shuffled[:count]]

    def truth(self, task: str, which: str = "default") -> Truth:
        """Return accuracies for a task, `default` being the first the space offers.

        Raises:
            ConfigError: The space was not trained on that task.
            UnknownNameError: It has no accuracy of that name.
            DataFileError: The file is absent or faulty.
        """
        if task not in self.truths:
            raise ConfigError(f"dataset: {self.name} has no accuracies for {task}, only for {', '.join(self.truths)}")
        known = self.truths[task]
        if which == "default":
            which = next(iter(known))
        if which not in known:
            raise unknown_name(f"accuracy of {self.name} on {task}", which, known)
        return self.read_truth(task, which)

    def check_index(self, index: int) -> int:
        """Return an index of the space.

        Raises:
            ArchitectureError: It is not one of 0 to size - 1.
        """
        if not 0 <= index < self.size:
            raise ArchitectureError(f"index: expected 0 to {self.size - 1}, got {index}")
        return index


class ListedSpace(Space):
    """A space of which the user has a list: an index is a row of the table, whose columns are the accuracies.

    Networks that are not listed can be built all the same, from their text.
    """

    @abstractmethod
    def read_table(self) -> Table:
        """Read the networks and their accuracies, columns named `task/which`.

        Raises:
            DataFileError: The file is absent or faulty.
        """

    @abstractmethod
    def canonical(self, architecture: str) -> str:
        """Return the text as the table has it.

        Raises:
            ArchitectureError: It does not describe a network.
        """

    @functools.cached_property
    def table(self) -> Table:
        """The table, read when it is first asked for."""
        return self.read_table()

    @functools.cached_property
    def _rows(self) -> dict[str, int]:
        return {architecture: row for row, architecture in enumerate(self.table.architectures)}

    @property
    def size(self) -> int:
        """How many networks the table lists."""
        return len(self.table.architectures)

    def architecture(self, index: int) -> str:
        """Return the text of a row."""
        return self.table.architectures[self.check_index(index)]

    def index(self, architecture: str) -> int:
        """Return the row of a text."""
        text = self.canonical(architecture)
        if text not in self._rows:
            raise ArchitectureError(
                f"architecture '{architecture[:100]}': a network of this kind, but none of the {self.size} in "
                f"{self.table.path}"
            )
        return self._rows[text]

    def read_truth(self, task: str, which: str) -> Truth:
        """Return a column of the table."""
        name = f"{task}/{which}"
        return Truth(name, self.truths[task][which], self.table.columns[name])


#: Benchmark spaces, each made from the data folder.
SPACES: Registry[Callable[[Path | None], Space]] = Registry("space")
