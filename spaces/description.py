"""A network as a file: the description that a search writes, and that scores and training scripts read."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..atomic import write_atomically
from ..datasets.tasks import TASKS
from ..errors import ConfigError, in_words
from .space import SPACES

_FACTORY = '''"""{what}"""

from pathlib import Path

from zcbench.spaces.description import read


def build():
    """Return the network, with initial weights from torch's global random state."""
    return read(Path(__file__).with_name("{file}")).network()
'''


@dataclass(frozen=True)
class Description:
    """A network of a space.

    Attributes:
        space: Name of the space.
        architecture: Text of the network.
        task: Name of the task, which sets the classes and the size of the images.
        found: How it was found, for readers.
    """

    space: str
    architecture: str
    task: str
    found: dict[str, Any] = field(default_factory=dict)

    def network(self) -> nn.Module:
        """Build the network. Torch's global random state draws its initial weights.

        Raises:
            UnknownNameError: There is no space or task of that name.
            ArchitectureError: The text does not describe a network of the space.
        """
        return SPACES[self.space](None).network(self.architecture, TASKS[self.task])

    @property
    def memory_format(self) -> torch.memory_format:
        """The memory layout of the images that the networks of the space are scored on."""
        return SPACES[self.space](None).memory_format

    def write(self, path: Path) -> None:
        """Write the description to a JSON file, and beside it a Python module with a function `build` for the network.

        Raises:
            OSError: A file cannot be written.
        """
        write_atomically(path, json.dumps(dataclasses.asdict(self), indent=1).encode())
        module = _FACTORY.format(what=f"A network of the space {self.space}.", file=path.name)
        write_atomically(path.with_suffix(".py"), module.encode())


def read(path: Path) -> Description:
    """Read a description.

    Raises:
        ConfigError: The file is no description of a network.
    """
    expected = f"description {path}: expected JSON with the texts space, architecture and task"
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{expected} ({in_words(error)})") from None
    names = ("space", "architecture", "task")
    if not isinstance(document, dict) or not all(isinstance(document.get(name), str) for name in names):
        raise ConfigError(expected)
    found = document.get("found")
    texts = {name: document[name] for name in names}
    return Description(**texts, found=found if isinstance(found, dict) else {})
