"""The backward pass, and the gradients that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...errors import NotApplicableError
from ..operations.calls import NO_LAYER
from .core import Host, Need, Pass
from .forward import DATA, Forward, Trace
from .objectives import CROSS_ENTROPY, SUM, Objective
from .taps import Tap, all_finite, all_real, as_numbers, finite

#: The weight `(K, ...)` of every convolution and linear map with its gradient, in float64 and in order of definition.
Layers = list[tuple[Tensor, Tensor]]


@dataclass
class Found:
    """The results of a backward pass; `of` says what it was differentiated for: `parameters`, `input`."""

    of: frozenset[str]
    parameters: dict[str, Tensor | None]
    input: Tensor | None


@dataclass(frozen=True)
class Gradients(Pass):
    """A pass that leaves gradients, `Found`.

    Attributes:
        forward: Forward pass that is differentiated.
        objective: What is differentiated.
    """

    forward: Forward
    objective: Objective

    @property
    def reads(self) -> frozenset[str]:
        """Gradients, and the labels if the objective does."""
        return frozenset({"gradients", *(["labels"] if self.objective.labels else [])})


@dataclass(frozen=True)
class Backward(Gradients):
    """A backward pass from an objective on the first input of a forward pass.

    An objective per image gives gradients with a first dimension of N in one vectorised pass. Images share the
    statistics of batch norms.
    """

    @property
    def backwards(self) -> int:
        """One."""
        return 1

    @property
    def stands_on(self) -> Forward:
        """The forward pass."""
        return self.forward

    def run(self, probe: Host) -> Found:
        """Differentiate what the needs ask for, and visit the taps of the pass."""
        trace = probe.graph(self.forward)
        of = self.targets(probe, trace)
        logits = trace.outputs[0]
        y = probe.labels(self.forward.inputs[0], logits.shape[1]) if self.objective.labels else None
        with torch.enable_grad():
            values = self.objective(logits, y)
        parameters = {k: v for k, v in trace.parameters.items() if v.requires_grad} if "parameters" in of else {}
        leaves = [*parameters.values(), *([trace.inputs[0]] if "input" in of else [])]
        gradients: list[Tensor | None] = [None] * len(leaves)
        if values.requires_grad and leaves:
            trace.running = self
            keep = probe.is_pending(self.forward, self)
            try:
                with torch.enable_grad():
                    gradients = self.differentiate(trace, values, leaves, keep)
            except RuntimeError as error:
                raise without_second_derivative(error) from None
            finally:
                trace.running = None
            trace.graph_freed = not keep
        probe.backwards += self.backwards
        self.take_taps(probe, trace)
        found = dict.fromkeys(trace.parameters) | dict(zip(parameters, gradients, strict=False))
        return Found(of, found, gradients[-1] if "input" in of else None)

    def differentiate(self, trace: Trace, values: Tensor, leaves: list[Tensor], keep: bool) -> list[Tensor | None]:
        """Return the gradients of the leaves; `keep` says whether the graph is needed again."""
        if not self.objective.per_image:
            return list(torch.autograd.grad(values, leaves, retain_graph=keep, allow_unused=True))
        options: dict[str, Any] = {"retain_graph": True, "allow_unused": True}
        each = torch.eye(len(values), dtype=values.dtype, device=values.device)
        try:  # row n of the product with the identity is the gradient of the outputs of image n
            return list(torch.autograd.grad(values, leaves, each, is_grads_batched=True, **options))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # some gradients cannot be batched, such as that of group norm
            rows = [torch.autograd.grad(values, leaves, unit, **options) for unit in each]
        return [None if of[0] is None else torch.stack(of) for of in zip(*rows, strict=True)]

    def targets(self, probe: Host, trace: Trace) -> frozenset[str]:
        """Return what to differentiate for: what is asked, and what makes the gradient pass every tap."""
        asked = probe.asked(self)
        of = {need.wanted for need in asked if isinstance(need, Gradient)}
        taps = [need for need in asked if isinstance(need, Tap)]
        before = any(not watched.place.weighted for watched in trace.watched if not isinstance(watched.place, str))
        if any(tap.side == "layer" for tap in taps):
            of.add("parameters")
        if taps and (before or not of or any(tap.side == "input" for tap in taps)):
            of.add("input")
        return frozenset(of)

    def take_taps(self, probe: Host, trace: Trace) -> None:
        """Move what the taps of this pass have reduced to the trace."""
        watched = [w for w in trace.watched if w.tap.of == self]
        taps = [need for need in probe.asked(self) if isinstance(need, Tap) and need not in probe.errors]
        taken = {tap: [(w.place, w.take()) for w in watched if w.tap == tap] for tap in taps}
        probe.errors |= trace.looks.errors()
        trace.taps |= {tap: as_numbers(taken[tap]) for tap in taps if tap not in probe.errors}


class Gradient(Need):
    """A need that reads a gradient.

    Attributes:
        of: The pass.
        wanted: What is differentiated for, `parameters` or `input`.
    """

    of: Gradients
    wanted: ClassVar[str]

    @property
    def source(self) -> Gradients:
        """The pass."""
        return self.of

    def found(self, probe: Host) -> Found:
        """Return what the pass leaves; it runs again if it was not differentiated for this need."""
        found: Found = probe.result(self.of)
        return found if self.wanted in found.of else probe.again(self.of)


@dataclass(frozen=True)
class LayerGradients(Gradient):
    """The weight and the gradient of every convolution and linear map, `Layers`. It is zero if no path leads there."""

    of: Gradients
    wanted: ClassVar[str] = "parameters"

    def value(self, probe: Host) -> Layers:
        """Return the pairs.

        Raises:
            NotFiniteError: A gradient holds NaN or an infinity.
        """
        gradients = probe.read(ParameterGradients(self.of))
        forward = self.of.forward
        # Weights as given are the same in all passes, and are held once.
        weights: dict[str, Tensor] = probe.read(Weights() if forward.init == "given" else Weights(forward))
        trace: Trace = probe.result(forward)
        given = probe.places.parameters
        pairs = []
        if not trace.weights:
            raise NotApplicableError(NO_LAYER)
        for name, used in trace.weights.items():
            # A network may have written into its weight before it used it.
            same = name not in given or forward.init != "given" or torch.equal(used, given[name])
            pairs.append((weights[name] if same else used.detach().double(), gradients[name].double()))
        return pairs

    def note(self, value: Layers) -> str:
        """Say when there is nothing to rank by."""
        reached = islice((True for _, gradient in value if gradient.any()), min(2, len(value)))
        return "" if len(list(reached)) == min(2, len(value)) else NO_GRADIENT


@dataclass(frozen=True)
class ParameterGradients(Gradient):
    """The gradient of every parameter that the pass differentiates for, by name; zeros if no path leads to it.

    For an objective per image, gradients have a first dimension of N.
    """

    of: Gradients
    wanted: ClassVar[str] = "parameters"

    def value(self, probe: Host) -> dict[str, Tensor]:
        """Return the gradients.

        Raises:
            NotFiniteError: A gradient holds NaN or an infinity.
        """
        found = self.found(probe)
        trace: Trace = probe.result(self.of.forward)
        leaves = trace.parameters
        all_real(leaves)
        each = (len(trace.outputs[0]),) if self.of.objective.per_image else ()
        gradients = {name: or_zeros(gradient, leaves[name], each) for name, gradient in found.parameters.items()}
        all_finite("the gradient of ", gradients)
        return gradients


@dataclass(frozen=True)
class InputGradient(Gradient):
    """The gradient of the input `(N, C, H, W)`, zeros if no path leads to it."""

    of: Gradients
    wanted: ClassVar[str] = "input"

    def value(self, probe: Host) -> Tensor:
        """Return the gradient.

        Raises:
            NotFiniteError: The gradient holds NaN or an infinity.
        """
        found = self.found(probe)
        trace: Trace = probe.result(self.of.forward)
        return finite("the gradient of the input", or_zeros(found.input, trace.inputs[0]))


@dataclass(frozen=True)
class Weights(Need):
    """The float64 weight of every convolution and linear map by name, in order of definition.

    Without a forward pass, weights are as given, and no pass runs.
    """

    of: Forward | None = None

    @property
    def source(self) -> Forward | None:
        """The forward pass."""
        return self.of if self.of is not None and self.of.init != "given" else None

    def value(self, probe: Host) -> dict[str, Tensor]:
        """Return the weights."""
        if self.source is not None:
            trace: Trace = probe.result(self.source)
            return {name: weight.detach().double() for name, weight in trace.weights.items()}
        operations = probe.operations(True)
        operations.covered("products", "the proxy reads the weights of all layers")
        state = probe.state()
        return {w.name: (state[w.name] if w.value is None else w.value).double() for w in operations.weights}


NO_GRADIENT = "no gradient reaches any layer but one at most: no path leads to the logits, or the last layer is zero"

#: The backward pass of the mean cross entropy on the images.
LOSS_PASS = Backward(DATA, CROSS_ENTROPY)
#: Weights and their loss gradients.
LOSS = LayerGradients(LOSS_PASS)
#: The gradient of the sum of all logits by the images.
JACOBIAN = InputGradient(Backward(DATA, SUM))


def or_zeros(gradient: Tensor | None, leaf: Tensor, each: Sequence[int] = ()) -> Tensor:
    """Return a gradient, or zeros in its shape."""
    return leaf.new_zeros((*each, *leaf.shape)) if gradient is None else gradient


def without_second_derivative(error: RuntimeError) -> Exception:
    """Return what a proxy says of an error of a second derivative."""
    text = str(error)
    if "is not implemented" in text and "derivative" in text:
        return NotApplicableError(
            f"an operation of the network has no second derivative ({text.split('.', maxsplit=1)[0]})"
        )
    return error
