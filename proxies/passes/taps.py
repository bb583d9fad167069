"""Taps: reductions of activations, and of their gradients, while a pass runs, so that none of them need be kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from ...errors import NotApplicableError, NotFiniteError
from ..operations.calls import Call, Operations
from .core import Host, Need, Pass

E = TypeVar("E", bound=BaseException)
#: Where a tap is: a call of an operation, or the name of a module.
Place = Call | str
#: The places of a tap in the order in which they ran, each with what the reduction returned.
Tapped = list[tuple[Place, Any]]


@dataclass(frozen=True)
class Tap(Need):
    """A reduction at chosen operations while a pass runs.

    Attributes:
        of: Pass that is tapped. Of a forward pass, the reduction gets the place and the activation. Of a backward pass,
            it gets the place, the activation and its gradient. The gradient is zero if no path leads to the output; at
            an input, it is the part that flows through this operation only. Of `Signs`, it gets the place, the signs
            there and the gradient at the place before, or at the input of the first place.
        at: Module-level function from the record of a network to the places, in any order.
        reduce: Module-level function. Its result should be small, since the probe keeps it.
        side: Side of the operation that is tapped: its `output` or its `input`. For `layer`, the reduction gets the
            place, the input, the gradient at the output, and the operation as a function of input, weight and bias.
    """

    of: Pass
    at: Callable[[Operations], Sequence[Place]]
    reduce: Callable[..., Any]
    side: Literal["output", "input", "layer"] = "output"

    @property
    def source(self) -> Pass:
        """The pass that is tapped."""
        return self.of

    def value(self, probe: Host) -> Tapped:
        """Return the places and the reduced values, in the order in which they ran."""
        found: Tapped = probe.tapped(self)
        return found


# Places that several proxies tap.


def layers(operations: Operations) -> Sequence[Place]:
    """Return the convolutions and linear maps that have weights."""
    return operations.layers


def relus(operations: Operations) -> Sequence[Place]:
    """Return the ReLUs."""
    return operations.relus


def maps(operations: Operations) -> Sequence[Place]:
    """Return the operations that make feature maps: layers, norms, activations, poolings, paddings and skips.

    The linear maps of a network without convolutions count too. Sums and concatenations do not.
    """
    operations.all_covered("the proxy reads all feature maps")
    return operations.of_kinds("convolution", "linear", "norm", "activation", "pool", "pad", "skip")


def blocks(operations: Operations) -> Sequence[Place]:
    """Return the names of the blocks.

    Raises:
        NotApplicableError: The network has no blocks, or their channels are last.
    """
    if operations.has_channels_last:
        raise NotApplicableError("the blocks of the network give maps with channels last (N, H, W, C)")
    return operations.blocks


def first_block(operations: Operations) -> Sequence[Place]:
    """Return the name of the first block, whose input is the output of the stem."""
    return blocks(operations)[:1]


def itself(place: Place, activation: Tensor) -> Tensor:
    """Return the activation, as the reduction of a tap that keeps all of it."""
    return activation


@dataclass
class Watched:
    """An activation that a tap of a backward pass waits at.

    It holds a detached alias and no reference to the graph. A reference cycle would keep the memory of a whole graph
    until the garbage collector runs.
    """

    tap: Tap
    place: Place
    activation: Tensor
    reduce: Callable[[Tensor, Tensor], Any]
    kept: Callable[[Tap], Any]
    looks: Looks
    version: int = 0
    value: Any = None
    arrived: bool = False

    def __post_init__(self) -> None:
        self.version = self.activation._version

    def before_write(self, written: Tensor) -> None:
        """Take a copy if a tensor that is about to be overwritten has the memory of the activation."""
        if written.untyped_storage().data_ptr() == self.activation.untyped_storage().data_ptr():
            self.activation = self.activation.clone()
            self.version = self.activation._version

    def arrive(self, gradient: Tensor) -> None:
        """Reduce the activation and the gradient."""
        self.arrived = True
        with self.kept(self.tap):
            if self.activation._version != self.version:
                raise NotApplicableError(
                    f"{self.place}: the activation was overwritten by an operation that is not seen"
                )
            self.looks.at(f"the gradient at {self.place}", gradient, self.tap)
            self.value = self.reduce(self.activation, gradient)

    def take(self) -> Any:
        """Return the reduced value; the gradient is zero if no path leads to the output."""
        if not self.arrived:
            self.arrive(torch.zeros_like(self.activation))
        self.arrived = False
        return self.value


@contextmanager
def errors_kept(errors: dict[Any, Exception], key: Any) -> Iterator[None]:
    """Keep an error of a reduction for the proxies that read it, so that the pass goes on."""
    try:
        yield
    except Exception as error:
        errors[key] = bare(error)


def bare(error: E) -> E:
    """Return an error without its frames, which would keep all activations in memory."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


class Looks:
    """Looks at tensors of a pass whether they are finite; comparisons such as those of ReLU codes would hide a NaN.

    What is seen stays on the device until the pass has ended, because a question to a device makes the processor wait.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[str, Any, tuple[Tensor, ...], Tensor | None]] = []

    def at(self, name: str, tensor: Tensor, key: Any = None) -> Tensor:
        """Look at a tensor, and return it as it is; `key` says whom it concerns."""
        if tensor.numel():
            # Both carry on a NaN, and together they take a tenth of the time of `isfinite`.
            self._seen.append((name, key, (tensor.detach().amin(), tensor.detach().amax()), None))
        return tensor

    def at_held(self, tensors: Mapping[str, Tensor]) -> None:
        """Look at tensors by name that stay until the pass ends, so that a look at their sums is enough at first."""
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                self._seen.append((name, None, (tensor.detach().sum(),), tensor.detach()))

    def errors(self) -> dict[Any, NotFiniteError]:
        """Return the first error of everybody whom a NaN or an infinity concerns, with one question to the device."""
        seen, self._seen = self._seen, []
        figures = [figure for _, _, own, _ in seen for figure in own]
        numbers = iter(torch.stack(figures).tolist() if figures else ())
        found: dict[Any, NotFiniteError] = {}
        for name, key, own, held in seen:
            values = [next(numbers) for _ in own]
            if not all(map(math.isfinite, values)) and held is not None:  # the sum of large terms may overflow
                values = [held.amin().item(), held.amax().item()]
            if key not in found and not all(map(math.isfinite, values)):
                found[key] = NotFiniteError(f"{'NaN' if any(map(math.isnan, values)) else 'an infinity'} in {name}")
        return found

    def check(self) -> None:
        """Require that all tensors are finite.

        Raises:
            NotFiniteError: A tensor holds NaN or an infinity.
        """
        for error in self.errors().values():
            raise error


def finite(name: str, tensor: Tensor) -> Tensor:
    """Return a tensor as it is, if it is finite.

    Raises:
        NotFiniteError: The tensor holds NaN or an infinity.
    """
    # A sum is finite only if all terms are, and takes a tenth of the time. That of large terms may overflow.
    if not tensor.sum().isfinite() and not tensor.isfinite().all():
        raise NotFiniteError(f"{'NaN' if tensor.isnan().any() else 'an infinity'} in {name}")
    return tensor


def all_real(parameters: Mapping[str, Tensor]) -> None:
    """Require that parameters by name, which a pass differentiates for, are real: so are they in all formulas.

    Raises:
        NotApplicableError: A parameter is complex.
    """
    if odd := [name for name, tensor in parameters.items() if tensor.is_complex()]:
        raise NotApplicableError(f"{odd[0]} is complex, and the proxy reads the gradients of real parameters")


def as_numbers(tapped: Tapped) -> Tapped:
    """Return what a tap has reduced, with the scalars among it as numbers; they leave the device together."""
    scalars = [value for _, value in tapped if isinstance(value, Tensor) and value.ndim == 0]
    numbers = iter(torch.stack(scalars).tolist() if scalars else ())
    return [(p, next(numbers) if isinstance(v, Tensor) and v.ndim == 0 else v) for p, v in tapped]


def of_each_image(tapped: Tapped) -> list[Tensor]:
    """Return the results of a tap, which are matrices `(N, N)` over the same images.

    Raises:
        NotApplicableError: Some are larger than others, since a part of the network sees the tiles of an image apart.
    """
    if len({matrix.shape for _, matrix in tapped}) > 1:
        raise NotApplicableError("the operations see different numbers of images, since images consist of tiles")
    return [matrix for _, matrix in tapped]


def all_finite(prefix: str, tensors: Mapping[str, Tensor]) -> None:
    """Require that tensors by name are finite, with one question to all of them.

    Raises:
        NotFiniteError: A tensor holds NaN or an infinity.
    """
    sums = [tensor.detach().sum() for tensor in tensors.values() if tensor.is_floating_point()]
    if sums and not torch.stack(sums).isfinite().all():
        for name, tensor in tensors.items():
            finite(f"{prefix}{name}", tensor)


def channels_of(place: Place, activation: Tensor) -> int:
    """Return the number of channels of the output of a layer: dimension 1 of a convolution, the last otherwise."""
    return activation.shape[1 if isinstance(place, Call) and place.kind == "convolution" else -1]
