"""What a benchmark space is: networks with an index, a text, a builder, sizes and trained accuracies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...errors import ConfigError, unknown_name
from ...registry import Registry


@dataclass(frozen=True)
class Truth:
    """Trained accuracies of a whole space.

    Attributes:
        name: Task and accuracy (`cifar10/test-200`), part of the identity of every result.
        label: In words: set, epochs, seeds, and the file that holds it.
        values: Percent, float64, by index; NaN where the file has none.
    """

    name: str
    label: str
    values: NDArray[np.float64]


class Space(ABC):
    """A benchmark space. Architectures are texts; their index is the official one."""

    name: ClassVar[str]
    size: ClassVar[int]
    paper: ClassVar[str]
    #: Truths by task (`cifar10`), each a name and a one-line description; the first is the default.
    truths: ClassVar[Mapping[str, Mapping[str, str]]]

    @abstractmethod
    def architecture(self, index: int) -> str:
        """Return the text of an index."""

    @abstractmethod
    def index(self, architecture: str) -> int:
        """Return the index of a text.

        Raises:
            ArchitectureError: The text is no network of this space.
        """

    @abstractmethod
    def network(self, architecture: str, num_classes: int) -> nn.Module:
        """Build the network, initialised from torch's global random state."""

    @abstractmethod
    def read_truth(self, task: str, which: str, folder: Path) -> Truth:
        """Read the trained accuracies from the user's files."""

    @abstractmethod
    def params(self, architecture: str, num_classes: int) -> int:
        """Return the number of parameters without building the network."""

    @abstractmethod
    def macs(self, architecture: str, num_classes: int, image_size: int) -> int:
        """Return the multiply-accumulates of one image, and one operation per class for the bias."""

    def build(self, architecture: str, num_classes: int, seed: int) -> nn.Module:
        """Build the network in PyTorch's default initialisation, drawn from `seed`; the global state is left alone."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.network(architecture, num_classes)

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

    def truth(self, task: str, which: str, folder: Path) -> Truth:
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
        return self.read_truth(task, which, folder)


SPACES: Registry[Space] = Registry("space")
