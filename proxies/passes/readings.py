"""What proxies read without a pass of their own: the record of the network, parameters, labels, a random generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..operations.calls import Operations
from .core import Host, Need


@dataclass(frozen=True)
class Record(Need):
    """The record of the operations of the network in train mode, `Operations`."""

    def value(self, probe: Host) -> Operations:
        """Return the record."""
        return probe.operations(True)


@dataclass(frozen=True)
class Parameters(Need):
    """The parameters of the network by name, as they are defined; the network is not run."""

    recorded: ClassVar[bool] = False

    def value(self, probe: Host) -> dict[str, Tensor]:
        """Return the parameters."""
        return {name: tensor for name, tensor in probe.state().items() if name not in probe.places.buffers}


@dataclass(frozen=True)
class Draw(Need):
    """A fresh CPU generator for a named draw, independent of every other draw of the seed."""

    name: str
    recorded: ClassVar[bool] = False
    kept: ClassVar[bool] = False

    def value(self, probe: Host) -> torch.Generator:
        """Return the generator."""
        return probe.generator(self.name)


OPERATIONS, PARAMETERS = Record(), Parameters()
