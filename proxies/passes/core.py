"""What a pass and a need are. A new kind of pass is a new file with subclasses of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from ..operations.calls import Operations
from ..operations.isolation import Places
from .seconds import Seconds


class Host(Protocol):
    """What passes and needs see of a probe.

    Attributes:
        net: Network.
        x: Images `(N, C, H, W)`.
        seed: Seed of every random draw.
        drawn: Tensors by name that replace random draws.
        places: Places of the parameters and buffers of the network.
        seconds: Seconds by pass and need.
        errors: Errors of what has failed, by pass or need.
        forwards: Number of forward passes that have run.
        backwards: Number of backward passes that have run.
    """

    net: nn.Module
    x: Tensor
    seed: int
    drawn: dict[str, Tensor]
    places: Places
    seconds: Seconds
    errors: dict[Any, Exception]
    forwards: int
    backwards: int

    def operations(self, training: bool) -> Operations:
        """Return the record of the network in train or eval mode."""

    def state(self) -> dict[str, Tensor]:
        """Return copies of the parameters and buffers of the network by name."""

    def result(self, source: Pass) -> Any:
        """Return what a pass leaves, and run it if it has not run."""

    def again(self, source: Pass) -> Any:
        """Run a pass that did not leave what a need that was not planned reads."""

    def graph(self, forward: Any) -> Any:
        """Return a forward pass whose graph has not been freed."""

    def read(self, need: Need) -> Any:
        """Return the value of a need."""

    def asked(self, source: Pass) -> list[Need]:
        """Return the planned needs of a pass."""

    def taps_on(self, forward: Pass) -> list[Any]:
        """Return the planned taps of a forward pass and of all passes that stand on it."""

    def is_pending(self, forward: Pass, but: Pass) -> bool:
        """Tell whether another pass that stands on a forward pass is planned and has not run."""

    def tapped(self, tap: Any) -> Any:
        """Return the places and the reduced values of a tap."""

    def reduced(self, need: Need) -> Tensor:
        """Return the reduction of a pass that reduces for its needs."""

    def generator(self, name: str) -> torch.Generator:
        """Return a fresh CPU generator for a named draw."""

    def labels(self, of: Any, classes: int | None = None) -> Tensor:
        """Return the labels of the images of an input."""

    def check_label(self, label: int, classes: int) -> None:
        """Require that a label is the index of an output."""

    def logits(self, output: object, images: int) -> Tensor:
        """Return the output of the network if it is logits."""


class Pass:
    """Something that is run through a network once, however many proxies read it: a frozen dataclass."""

    @property
    def forwards(self) -> int:
        """Number of forward passes that it adds."""
        return 0

    @property
    def backwards(self) -> int:
        """Number of backward passes that it adds."""
        return 0

    @property
    def training(self) -> bool:
        """Whether modules are in train mode."""
        below = self.stands_on
        return below is None or below.training

    @property
    def stands_on(self) -> Pass | None:
        """The pass that has to run before this one, None if there is none."""
        return None

    @property
    def needs(self) -> tuple[Need, ...]:
        """What it reads of the passes that it stands on, so that the probe can plan it."""
        return ()

    @property
    def reads(self) -> frozenset[str]:
        """What it reads beside the network: `data`, `labels`, `gradients`, `noise`."""
        return frozenset()

    def run(self, probe: Host) -> Any:
        """Run the pass and return what it leaves; `probe.asked(self)` are the needs that will read it."""
        raise NotImplementedError


class Need:
    """What a proxy reads: a value that a pass leaves. It is a frozen dataclass, and equal needs are computed once.

    Attributes:
        recorded: Whether the record of the network is needed for it.
        kept: Whether the value is computed once; otherwise every proxy gets its own.
    """

    recorded: ClassVar[bool] = True
    kept: ClassVar[bool] = True

    @property
    def source(self) -> Pass | None:
        """The pass that leaves the value, None if the value needs no pass."""
        return None

    @property
    def training(self) -> bool:
        """Whether the network runs in train mode for it."""
        return self.source is None or self.source.training

    @property
    def parts(self) -> tuple[Need, ...]:
        """The needs that its value is made of, and those of its pass, so that the probe can plan them."""
        return self.source.needs if self.source else ()

    @property
    def reads(self) -> frozenset[str]:
        """What it reads beside what its passes read."""
        return frozenset()

    def value(self, probe: Host) -> Any:
        """Return the value."""
        raise NotImplementedError

    def note(self, value: Any) -> str:
        """Return what a reader of a score that read the value should know, or an empty text."""
        return ""


def expanded(needs: Iterable[Need]) -> list[Need]:
    """Return needs and all parts of them, each once."""
    found: dict[Need, None] = {}
    for need in needs:
        found[need] = None
        found |= dict.fromkeys(expanded(need.parts))
    return list(found)


def chain(source: Pass | None) -> list[Pass]:
    """Return a pass and all passes that it stands on."""
    found = []
    while source is not None:
        found.append(source)
        source = source.stands_on
    return found


def root(source: Pass | None) -> Pass | None:
    """Return the pass that everything below a pass stands on."""
    return chain(source)[-1] if source else None
