"""What a pass and a need are. A new kind of pass is a new file with subclasses of both."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any, ClassVar

if typing.TYPE_CHECKING:
    from ..probe import Probe


class Pass:
    """Something that is run through a network once, however many proxies read it: a frozen dataclass.

    Attributes:
        forwards: Number of forward passes that it adds.
        backwards: Number of backward passes that it adds.
    """

    forwards: ClassVar[int] | Any = 0
    backwards: ClassVar[int] | Any = 0

    @property
    def stands_on(self) -> Pass | None:
        """The pass that has to run before this one, None if there is none."""
        return None

    @property
    def reads(self) -> frozenset[str]:
        """What it reads beside the network: `data`, `labels`, `gradients`, `noise`."""
        return frozenset()

    def run(self, probe: Probe) -> Any:
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
    def parts(self) -> tuple[Need, ...]:
        """The needs that its value is made of, so that the probe can plan them; none for a plain need."""
        return ()

    @property
    def reads(self) -> frozenset[str]:
        """What it reads beside what its passes read."""
        return frozenset()

    def value(self, probe: Probe) -> Any:
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
