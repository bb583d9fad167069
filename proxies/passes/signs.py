"""The pass that sends random signs from every block back to the previous one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .backward import or_zeros
from .core import Host, Pass
from .forward import Forward
from .taps import Looks, Tap, as_numbers, errors_kept


@dataclass(frozen=True)
class Signs(Pass):
    """Random signs at every tapped module, sent back to the previous tapped module, or to the input of the first.

    Attributes:
        forward: Forward pass that is differentiated.
    """

    forward: Forward

    @property
    def backwards(self) -> int:
        """One."""
        return 1

    links: ClassVar[bool] = True

    @property
    def stands_on(self) -> Forward:
        """The forward pass."""
        return self.forward

    @property
    def reads(self) -> frozenset[str]:
        """Gradients, which come back from the signs."""
        return frozenset({"gradients"})

    def run(self, probe: Host) -> None:
        """Send signs for every tap, from the last module to the first."""
        trace = probe.graph(self.forward)
        taps = [tap for tap in probe.asked(self) if isinstance(tap, Tap) and tap not in probe.errors]
        # Every tap goes back through the same graph.
        keep = probe.is_pending(self.forward, self) or len(taps) > 1
        looks = Looks()
        for tap in taps:
            chain, values = trace.chains.pop(tap, []), []
            for place in range(len(chain) - 1, 0, -1):
                (_, before), (name, after) = chain[place - 1], chain[place]
                signs = self._signs(probe, place, after)
                gradient = None
                if after.requires_grad and before.requires_grad:
                    (gradient,) = torch.autograd.grad(after, before, signs, retain_graph=keep, allow_unused=True)
                with errors_kept(probe.errors, tap), probe.seconds.spent_on(tap):
                    gradient = looks.at(f"the gradient at {name}", or_zeros(gradient, before), tap)
                    values.append((name, tap.reduce(name, signs, gradient)))
            trace.taps[tap] = as_numbers(values[::-1])
        probe.errors |= looks.errors()
        probe.backwards += 1
        trace.graph_freed = not keep

    def _signs(self, probe: Host, place: int, like: Tensor) -> Tensor:
        name = f"signs[{place}]"
        if name in probe.drawn:
            return probe.drawn[name].to(like)
        drawn = torch.randint(0, 2, like.shape, generator=probe.generator(name), device="cpu")
        return (2 * drawn - 1).to(like)
